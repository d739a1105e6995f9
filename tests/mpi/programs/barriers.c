/* SPDX-License-Identifier: BSD-3-Clause
 *
 *     barriers ROUNDS
 *
 * MPI_Barrier on two communicators in turn, with allreduces between them. No rank may leave before all have come: each
 * says in shared memory how far it is.
 */
#define _GNU_SOURCE
#include <sched.h>

#include "check.h"

int main(int argc, char **argv) {
  check_start(&argc, &argv);
  const int rounds = atoi(argv[1]);
  MPI_Comm communicators[2] = {MPI_COMM_WORLD, MPI_COMM_NULL};
  MPI_Comm_dup(MPI_COMM_WORLD, &communicators[1]);
  MPI_Win window;
  volatile int *mine;
  MPI_Win_allocate_shared(sizeof(int), 1, MPI_INFO_NULL, MPI_COMM_WORLD, (void *)&mine, &window);
  volatile int *of[64];
  for (int rank = 0; rank < world_size; ++rank) {
    MPI_Aint bytes;
    int unit;
    MPI_Win_shared_query(window, rank, &bytes, &unit, (void *)&of[rank]);
  }
  *mine = 0;
  MPI_Barrier(MPI_COMM_WORLD);
  unsigned seed = 1u + (unsigned)world_rank;
  for (int round = 1; round <= rounds; ++round) {
    if (rand_r(&seed) % 8 == 0) sched_yield();
    if (rand_r(&seed) % 512 == 0) usleep(500);
    __atomic_store_n(mine, round, __ATOMIC_SEQ_CST);
    MPI_Barrier(communicators[round % 2]);
    int behind = 0;
    for (int rank = 0; rank < world_size; ++rank) behind += __atomic_load_n(of[rank], __ATOMIC_SEQ_CST) < round;
    CHECK(behind == 0, "round %d: %d ranks had not come", round, behind);
    if (round % 3 == 0) {
      int one = 1, all = 0;
      allreduce(&one, &all, 1, MPI_INT, MPI_SUM, communicators[round % 2]);
      CHECK(all == world_size, "sum %d", all);
    }
  }
  MPI_Win_free(&window);
  MPI_Comm_free(&communicators[1]);
  return check_finish();
}
