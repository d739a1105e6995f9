/* SPDX-License-Identifier: BSD-3-Clause
 *
 *     against_imb ROUNDS BYTES ...
 *
 * MPI_Allreduce of so many bytes of float by the ways of IMB-MPI1 and of offbeat bench, in turn in one
 * process: what differs between them is the way, not the process or the minute. Rank 0 prints for each size,
 * in microseconds and as medians over the rounds:
 *
 *   barrier   IMB's: behind a barrier; mean over calls and ranks of the time from arrival to exit
 *   pause     the same with 5 microseconds between the barrier and the call
 *   instant   offbeat bench's: all wait for one instant; median over calls of last exit - last arrival
 */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

enum { CALLS = 1000, WAYS = 3 };
static const double PAUSE_US = 5;

static double now_us(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return 1e6 * (double)t.tv_sec + 1e-3 * (double)t.tv_nsec;
}

static int ascending(const void* left, const void* right) {
  const double a = *(const double*)left, b = *(const double*)right;
  return (a > b) - (a < b);
}

static double median(double* values, int count) {
  qsort(values, (size_t)count, sizeof values[0], ascending);
  return values[count / 2];
}

static double wait_until(double instant) {
  double now = now_us();
  while (now < instant) now = now_us();
  return now;
}

static double arrive(int way) {
  double instant = now_us() + PAUSE_US;
  if (way == 2) MPI_Bcast(&instant, 1, MPI_DOUBLE, 0, MPI_COMM_WORLD);
  if (way != 2) MPI_Barrier(MPI_COMM_WORLD);
  if (way == 0) return now_us();
  return wait_until(way == 1 ? now_us() + PAUSE_US : instant);
}

static double one_round(int way, const float* in, float* out, int count, int calls) {
  static double arrival[CALLS], exit_[CALLS], last_arrival[CALLS], last_exit[CALLS], delay[CALLS];
  int ranks;
  MPI_Comm_size(MPI_COMM_WORLD, &ranks);
  double mean = 0;
  MPI_Barrier(MPI_COMM_WORLD);
  for (int i = 0; i < calls; ++i) {
    arrival[i] = arrive(way);
    MPI_Allreduce(in, out, count, MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD);
    exit_[i] = now_us();
    mean += (exit_[i] - arrival[i]) / calls / ranks;
  }
  MPI_Allreduce(MPI_IN_PLACE, &mean, 1, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD);
  MPI_Allreduce(arrival, last_arrival, calls, MPI_DOUBLE, MPI_MAX, MPI_COMM_WORLD);
  MPI_Allreduce(exit_, last_exit, calls, MPI_DOUBLE, MPI_MAX, MPI_COMM_WORLD);
  for (int i = 0; i < calls; ++i) delay[i] = last_exit[i] - last_arrival[i];
  return way == 2 ? median(delay, calls) : mean;
}

int main(int argc, char** argv) {
  MPI_Init(&argc, &argv);
  int rank;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  const int rounds = atoi(argv[1]);
  for (int a = 2; a < argc; ++a) {
    const int bytes = atoi(argv[a]), count = bytes / (int)sizeof(float);
    const int calls = bytes <= 4096 ? CALLS : bytes <= 65536 ? 100 : 30;
    float *in = calloc((size_t)count, sizeof *in), *out = calloc((size_t)count, sizeof *out);
    double* us[WAYS];
    for (int way = 0; way < WAYS; ++way) us[way] = calloc((size_t)rounds, sizeof(double));
    for (int round = 0; round < rounds; ++round) {
      for (int way = 0; way < WAYS; ++way) us[way][round] = one_round(way, in, out, count, calls);
    }
    if (rank == 0) printf("%d", bytes);
    for (int way = 0; way < WAYS; ++way) {
      if (rank == 0) printf(" %.3f", median(us[way], rounds));
      free(us[way]);
    }
    if (rank == 0) printf("\n");
    free(in);
    free(out);
  }
  MPI_Finalize();
  return 0;
}
