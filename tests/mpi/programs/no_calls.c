/* SPDX-License-Identifier: BSD-3-Clause
 *
 * no_calls COUNT SECONDS: every rank begins a reduction to each rank in turn, and an allreduce, of COUNT numbers, and
 * makes no call of MPI until the results are there, or for so long.
 *
 * Says on rank 0 "results without calls: yes" or "no", of all ranks together.
 */
#include <time.h>

#include "check.h"

static double now(void) {
  struct timespec time;
  clock_gettime(CLOCK_MONOTONIC, &time);
  return (double)time.tv_sec + 1e-9 * (double)time.tv_nsec;
}

static int is_complete(const volatile double *result, int count) {
  for (int k = 0; k < count; ++k)
    if (result[k] != world_size) return 0;
  return 1;
}

int main(int argc, char **argv) {
  check_start(&argc, &argv);
  const int count = atoi(argv[1]);
  const double seconds = atof(argv[2]);
  double *mine = allocate(sizeof *mine * (size_t)count);
  double *sums = allocate(sizeof *sums * (size_t)count);
  double *reduced = allocate(sizeof *reduced * (size_t)count);
  for (int k = 0; k < count; ++k) {
    mine[k] = 1;
    sums[k] = reduced[k] = 0;
  }
  /* The ranks agree in a blocking call. */
  double one = 1, sum;
  allreduce(&one, &sum, 1, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD);
  MPI_Request *requests = allocate(sizeof *requests * (size_t)(world_size + 1));
  if (world_rank == 1) usleep(100000);
  for (int root = 0; root < world_size; ++root)
    MPI_Ireduce(mine, reduced, count, MPI_DOUBLE, MPI_SUM, root, MPI_COMM_WORLD, &requests[root]);
  ++check_calls;
  MPI_Iallreduce(mine, sums, count, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD, &requests[world_size]);
  const double end = now() + seconds;
  while (now() < end && !(is_complete(sums, count) && is_complete(reduced, count))) usleep(1000);
  int is_over = is_complete(sums, count) && is_complete(reduced, count), are_over;
  MPI_Waitall(world_size + 1, requests, MPI_STATUSES_IGNORE);
  for (int k = 0; k < count; ++k) {
    CHECK(sums[k] == world_size, "sum %d: %g", k, sums[k]);
    CHECK(reduced[k] == world_size, "reduced %d: %g", k, reduced[k]);
  }
  MPI_Reduce(&is_over, &are_over, 1, MPI_INT, MPI_MIN, 0, MPI_COMM_WORLD);
  if (world_rank == 0) printf("results without calls: %s\n", are_over ? "yes" : "no");
  free(mine);
  free(sums);
  free(reduced);
  free(requests);
  return check_finish();
}
