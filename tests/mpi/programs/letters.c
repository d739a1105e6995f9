/* SPDX-License-Identifier: BSD-3-Clause
 *
 * letters ROUNDS COUNT: the last rank sends COUNT messages to rank 0, which waits in an allreduce, and waits for each to be
 * received. The last line has the time of the fastest of ROUNDS; before each of them all others have waited for long.
 */
#include <unistd.h>

#include "check.h"

int main(int argc, char **argv) {
  check_start(&argc, &argv);
  const int rounds = atoi(argv[1]), count = atoi(argv[2]), all = rounds * count;
  int *letters = allocate(sizeof(int) * (size_t)all), mine = 1, sum = 0;
  MPI_Request *requests = allocate(sizeof *requests * (size_t)all);
  double fastest = 1e9;
  allreduce(&mine, &sum, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
  for (int i = 0; world_rank == 0 && i < all; ++i)
    MPI_Irecv(&letters[i], 1, MPI_INT, world_size - 1, 1, MPI_COMM_WORLD, &requests[i]);
  MPI_Barrier(MPI_COMM_WORLD);
  for (int round = 0; world_rank == world_size - 1 && round < rounds; ++round) {
    usleep(100000);
    const double start = MPI_Wtime();
    for (int i = 0; i < count; ++i) {
      const int letter = round * count + i;
      MPI_Ssend(&letter, 1, MPI_INT, 0, 1, MPI_COMM_WORLD);
    }
    const double took = MPI_Wtime() - start;
    if (took < fastest) fastest = took;
  }
  allreduce(&mine, &sum, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
  CHECK(sum == world_size, "sum %d", sum);
  if (world_rank == 0) MPI_Waitall(all, requests, MPI_STATUSES_IGNORE);
  for (int i = 0; world_rank == 0 && i < all; ++i) CHECK(letters[i] == i, "letter %d: %d", i, letters[i]);
  if (world_rank == world_size - 1) printf("fastest: %.1f us each\n", 1e6 * fastest / count);
  fflush(stdout);
  free(letters);
  free(requests);
  return check_finish();
}
