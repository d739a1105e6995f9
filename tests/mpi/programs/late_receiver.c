/* SPDX-License-Identifier: BSD-3-Clause
 *
 * late_receiver BYTES SECONDS: rank 0 computes before each allreduce, so it comes last and never waits.
 * Meanwhile it receives a message of BYTES from rank 1, and makes no call but MPI_Allreduce until it sees the
 * last byte in its memory. It is an error if that takes longer than SECONDS.
 *
 * An MPI gives itself a turn in each of its collectives. A library that serves them has to do so, too, even
 * for a rank that does not wait. The number of calls does not tell: if ranks share cores, Intel MPI alone
 * needed 2 to 381 calls (3 ranks on 2 cores, I_MPI_SHM=spr).
 */
#include <time.h>

#include "check.h"

static double now(void) {
  struct timespec time;
  clock_gettime(CLOCK_MONOTONIC, &time);
  return (double)time.tv_sec + 1e-9 * (double)time.tv_nsec;
}

int main(int argc, char** argv) {
  check_start(&argc, &argv);
  const size_t bytes = (size_t)atol(argv[1]);
  const double limit = atof(argv[2]);
  enum { waits, is_here, is_late };
  char* letter = allocate(bytes);
  memset(letter, world_rank, bytes);
  int calls = 0, mine = waits, all = waits;
  allreduce(&mine, &all, 1, MPI_INT, MPI_MAX, MPI_COMM_WORLD);

  MPI_Request request = MPI_REQUEST_NULL;
  if (world_rank == 0) MPI_Irecv(letter, (int)bytes, MPI_BYTE, 1, 7, MPI_COMM_WORLD, &request);
  if (world_rank == 1) MPI_Isend(letter, (int)bytes, MPI_BYTE, 0, 7, MPI_COMM_WORLD, &request);
  const double start = now();
  while (all == waits) {
    const double begin = now();
    while (world_rank == 0 && now() - begin < 2e-4)
      ;
    if (world_rank == 0)
      mine = ((volatile char*)letter)[bytes - 1] ? is_here : begin - start > limit ? is_late : waits;
    allreduce(&mine, &all, 1, MPI_INT, MPI_MAX, MPI_COMM_WORLD);
    ++calls;
  }
  CHECK(all == is_here, "%zu bytes are not there after %d allreduces", bytes, calls);
  MPI_Wait(&request, MPI_STATUS_IGNORE);
  if (world_rank == 0) printf("there after %d allreduces\n", calls);
  free(letter);
  return check_finish();
}
