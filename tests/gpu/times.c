/* SPDX-License-Identifier: BSD-3-Clause
 *
 *     times DRIVER|none
 *
 * Prints what an allreduce takes, the median in microseconds: of host memory, before and after the driver is
 * loaded; of device memory; and what the copies alone take. Without a DRIVER it prints only the first.
 */
#include "../mpi/programs/check.h"
#include "../support/stub_gpu.h"

enum { ROUNDS = 9 };

static int by_value(const void *left, const void *right) {
  const double difference = *(const double *)left - *(const double *)right;
  return (difference > 0) - (difference < 0);
}

static double allreduce_us(const double *input, double *output, int count) {
  const int calls = count < 1000 ? 2000 : count < 100000 ? 200 : 20;
  double times[ROUNDS];
  for (int round = 0; round < ROUNDS; ++round) {
    MPI_Barrier(MPI_COMM_WORLD);
    const double start = MPI_Wtime();
    for (int k = 0; k < calls; ++k) MPI_Allreduce(input, output, count, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD);
    times[round] = (MPI_Wtime() - start) / calls * 1e6;
  }
  qsort(times, ROUNDS, sizeof *times, by_value);
  return times[ROUNDS / 2];
}

static double copies_us(const struct stub_gpu *gpu, double *device, double *host, int count) {
  const int calls = count < 100000 ? 200 : 20;
  const size_t bytes = (size_t)count * sizeof *host;
  const double start = MPI_Wtime();
  for (int k = 0; k < calls; ++k) {
    gpu->read(host, device, bytes);
    gpu->write(device, host, bytes);
  }
  return (MPI_Wtime() - start) / calls * 1e6;
}

int main(int argc, char **argv) {
  static const int counts[] = {1, 128, 1024, 8192, 131072, 2097152};
  enum { sizes = sizeof counts / sizeof *counts };
  double before[sizes];
  check_start(&argc, &argv);
  double *const input = calloc((size_t)counts[sizes - 1], sizeof *input);
  double *const output = calloc((size_t)counts[sizes - 1], sizeof *output);
  for (int k = 0; k < sizes; ++k) before[k] = allreduce_us(input, output, counts[k]);
  const int has_gpu = strcmp(argv[1], "none") != 0;
  if (world_rank == 0) printf("%10s %14s %14s %14s %14s\n", "bytes", "host", "host, driver", "device", "copies");
  struct stub_gpu gpu;
  double *on_gpu[2] = {NULL, NULL};
  if (has_gpu) {
    gpu = stub_load(argv[1]);
    for (int side = 0; side < 2; ++side) on_gpu[side] = gpu.allocate(sizeof *input * (size_t)counts[sizes - 1], STUB_DEVICE);
  }
  for (int k = 0; k < sizes; ++k) {
    double after = 0, device = 0, copies = 0;
    if (has_gpu) {
      after = allreduce_us(input, output, counts[k]);
      device = allreduce_us(on_gpu[0], on_gpu[1], counts[k]);
      copies = copies_us(&gpu, on_gpu[0], input, counts[k]);
    }
    if (world_rank == 0)
      printf("%10zu %14.2f %14.2f %14.2f %14.2f\n", sizeof(double) * (size_t)counts[k], before[k], after, device, copies);
  }
  return check_finish();
}
