/* SPDX-License-Identifier: BSD-3-Clause
 *
 * idle MILLISECONDS REPEATS: rank 0 is so late to each allreduce, the others wait in it. What does waiting cost?
 *
 * The last line says how much of a core the busiest waiter used, and how long after the late rank the last one left.
 */
#include <sys/resource.h>
#include <time.h>
#include <unistd.h>

#include "check.h"

static double now(void) {
  struct timespec time;
  clock_gettime(CLOCK_MONOTONIC, &time);
  return (double)time.tv_sec + 1e-9 * (double)time.tv_nsec;
}

static double processor_time(void) {
  struct rusage usage;
  getrusage(RUSAGE_SELF, &usage);
  return (double)(usage.ru_utime.tv_sec + usage.ru_stime.tv_sec) +
         1e-6 * (double)(usage.ru_utime.tv_usec + usage.ru_stime.tv_usec);
}

static int ascending(const void *a, const void *b) {
  return (*(const double *)a > *(const double *)b) - (*(const double *)a < *(const double *)b);
}

int main(int argc, char **argv) {
  check_start(&argc, &argv);
  const int milliseconds = atoi(argv[1]), repeats = atoi(argv[2]);
  double *delays = allocate(sizeof *delays * (size_t)repeats);
  double waited = 0, used = 0;
  int mine = 1, sum = 0;
  allreduce(&mine, &sum, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
  for (int k = 0; k < repeats; ++k) {
    MPI_Barrier(MPI_COMM_WORLD);
    if (world_rank == 0) usleep((useconds_t)milliseconds * 1000);
    const double entered = now(), used_before = processor_time();
    allreduce(&mine, &sum, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
    const double left = now();
    CHECK(sum == world_size, "sum %d", sum);
    waited += left - entered;
    used += processor_time() - used_before;
    double last_left;
    MPI_Reduce(&left, &last_left, 1, MPI_DOUBLE, MPI_MAX, 0, MPI_COMM_WORLD);
    delays[k] = last_left - entered; /* the clock is that of the machine */
  }
  double share = world_rank == 0 ? 0 : used / waited, largest_share;
  MPI_Reduce(&share, &largest_share, 1, MPI_DOUBLE, MPI_MAX, 0, MPI_COMM_WORLD);
  if (world_rank == 0) {
    qsort(delays, (size_t)repeats, sizeof *delays, ascending);
    printf("waiting: %.1f %% of a core; delay: %.1f us\n", 100 * largest_share, 1e6 * delays[repeats / 2]);
  }
  free(delays);
  return check_finish();
}
