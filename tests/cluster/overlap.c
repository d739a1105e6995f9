/* SPDX-License-Identifier: BSD-3-Clause
 *
 * overlap CALLS BYTES...: for each length, how long an MPI_Iallreduce takes, and how long it takes with as much other
 * work, during which a rank makes no call of MPI. The ranks only sleep then: virtual hosts share cores. Prints for each
 * length, on rank 0, the medians in seconds: "BYTES alone SECONDS with work SECONDS".
 */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

static double now(void) {
  struct timespec time;
  clock_gettime(CLOCK_MONOTONIC, &time);
  return (double)time.tv_sec + 1e-9 * (double)time.tv_nsec;
}

static int compare(const void *one, const void *other) {
  const double a = *(const double *)one, b = *(const double *)other;
  return (a > b) - (a < b);
}

static double median_time(double *in, double *out, int count, int calls, double work_s) {
  double *times = malloc(sizeof *times * (size_t)calls), median;
  int rank, size;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &size);
  for (int call = 0; call < calls; ++call) {
    MPI_Request request;
    for (int k = 0; k < count; ++k) in[k] = rank + k;
    MPI_Barrier(MPI_COMM_WORLD);
    const double begin = now();
    MPI_Iallreduce(in, out, count, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD, &request);
    while (now() < begin + work_s) {
      const struct timespec nap = {0, 20000};
      nanosleep(&nap, NULL);
    }
    MPI_Wait(&request, MPI_STATUS_IGNORE);
    times[call] = now() - begin;
    MPI_Allreduce(MPI_IN_PLACE, &times[call], 1, MPI_DOUBLE, MPI_MAX, MPI_COMM_WORLD);
    for (int k = 0; k < count; ++k)
      if (out[k] != size * (size - 1) / 2.0 + (double)size * k) MPI_Abort(MPI_COMM_WORLD, 1);
  }
  qsort(times, (size_t)calls, sizeof *times, compare);
  median = times[calls / 2];
  free(times);
  return median;
}

int main(int argc, char **argv) {
  int rank;
  MPI_Init(&argc, &argv);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  for (int k = 2; k < argc; ++k) {
    const int count = atoi(argv[k]) / (int)sizeof(double);
    double *in = malloc(sizeof *in * (size_t)count), *out = malloc(sizeof *out * (size_t)count), alone;
    double one = 1, sum;
    /* The ranks agree in a blocking call. */
    MPI_Allreduce(&one, &sum, 1, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD);
    alone = median_time(in, out, count, atoi(argv[1]), 0);
    const double with_work = median_time(in, out, count, atoi(argv[1]), alone);
    if (rank == 0) printf("%s alone %.6f with work %.6f\n", argv[k], alone, with_work);
    free(in);
    free(out);
  }
  MPI_Finalize();
  return 0;
}
