/* SPDX-License-Identifier: BSD-3-Clause
 *
 *     times DRIVER|none
 *
 * Prints what an allreduce takes, the median in microseconds:
 *
 *     host           of host memory, before the driver is loaded; the only one without a DRIVER
 *     host, driver   the same after it
 *     device         of device memory
 *     late           of device memory, from the arrival of rank 0, which comes when all others wait
 *     begin          MPI_Iallreduce of device memory, until it returns
 *     complete       until MPI_Wait has returned, too
 *     copies         blocking copies of one vector from the device and to it, without a collective
 */
#include "../mpi/programs/check.h"
#include "../support/stub_gpu.h"

enum { ROUNDS = 9 };

static int by_value(const void *left, const void *right) {
  const double difference = *(const double *)left - *(const double *)right;
  return (difference > 0) - (difference < 0);
}

static double median(double *times) {
  qsort(times, ROUNDS, sizeof *times, by_value);
  return times[ROUNDS / 2];
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
  return median(times);
}

/* Rank 0 comes when the others have had the time of four calls. Its time is that of the whole job. */
static double late_us(const double *input, double *output, int count, double alone_us) {
  double times[ROUNDS];
  for (int round = 0; round < ROUNDS; ++round) {
    MPI_Barrier(MPI_COMM_WORLD);
    double start = MPI_Wtime();
    while (world_rank == 0 && MPI_Wtime() - start < 4e-6 * alone_us) {
    }
    start = MPI_Wtime();
    MPI_Allreduce(input, output, count, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD);
    times[round] = (MPI_Wtime() - start) * 1e6;
  }
  return median(times);
}

static void begun_us(const double *input, double *output, int count, double *begin, double *complete) {
  double begins[ROUNDS], ends[ROUNDS];
  for (int round = 0; round < ROUNDS; ++round) {
    MPI_Request request;
    MPI_Barrier(MPI_COMM_WORLD);
    const double start = MPI_Wtime();
    MPI_Iallreduce(input, output, count, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD, &request);
    begins[round] = (MPI_Wtime() - start) * 1e6;
    MPI_Wait(&request, MPI_STATUS_IGNORE);
    ends[round] = (MPI_Wtime() - start) * 1e6;
  }
  *begin = median(begins);
  *complete = median(ends);
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
  if (world_rank == 0)
    printf("%10s %12s %12s %12s %12s %12s %12s %12s\n", "bytes", "host", "host, driver", "device", "late", "begin",
           "complete", "copies");
  struct stub_gpu gpu;
  double *on_gpu[2] = {NULL, NULL};
  if (has_gpu) {
    gpu = stub_load(argv[1]);
    for (int side = 0; side < 2; ++side)
      on_gpu[side] = gpu.allocate(sizeof *input * (size_t)counts[sizes - 1], STUB_DEVICE);
  }
  for (int k = 0; k < sizes; ++k) {
    double after = 0, device = 0, late = 0, begin = 0, complete = 0, copies = 0;
    if (has_gpu) {
      after = allreduce_us(input, output, counts[k]);
      device = allreduce_us(on_gpu[0], on_gpu[1], counts[k]);
      late = late_us(on_gpu[0], on_gpu[1], counts[k], device);
      begun_us(on_gpu[0], on_gpu[1], counts[k], &begin, &complete);
      copies = copies_us(&gpu, on_gpu[0], input, counts[k]);
    }
    if (world_rank == 0)
      printf("%10zu %12.2f %12.2f %12.2f %12.2f %12.2f %12.2f %12.2f\n", sizeof(double) * (size_t)counts[k], before[k],
             after, device, late, begin, complete, copies);
  }
  return check_finish();
}
