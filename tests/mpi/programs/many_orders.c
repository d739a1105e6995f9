/* SPDX-License-Identifier: BSD-3-Clause
 *
 * many_orders N: N communicators that live at the same time, each with the ranks in another order, with a bcast and an
 * allreduce on each.
 */
#include "check.h"

/* The place of this rank in permutation `number` of all ranks. */
static int place_in(int number) {
  int left[16], key = 0;
  for (int i = 0; i < world_size; ++i) left[i] = i;
  for (int count = world_size; count > 0; --count, ++key) {
    const int chosen = number % count;
    if (left[chosen] == world_rank) return key;
    number /= count;
    left[chosen] = left[count - 1];
  }
  return -1;
}

int main(int argc, char **argv) {
  check_start(&argc, &argv);
  const int most = atoi(argv[1]);
  MPI_Comm *communicators = allocate(sizeof *communicators * (size_t)most);
  for (int k = 0; k < most; ++k) {
    within(60, "communicator %d", k);
    MPI_Comm_split(MPI_COMM_WORLD, 0, place_in(k), &communicators[k]);
    int rank, given = -1, sum = -1;
    MPI_Comm_rank(communicators[k], &rank);
    CHECK(rank == place_in(k), "communicator %d: rank %d", k, rank);
    if (rank == 0) given = k;
    MPI_Bcast(&given, 1, MPI_INT, 0, communicators[k]);
    CHECK(given == k, "communicator %d: %d", k, given);
    allreduce(&rank, &sum, 1, MPI_INT, MPI_SUM, communicators[k]);
    CHECK(sum == world_size * (world_size - 1) / 2, "communicator %d: sum %d", k, sum);
  }
  for (int k = 0; k < most; ++k) MPI_Comm_free(&communicators[k]);
  free(communicators);
  within(20, "the end");
  return check_finish();
}
