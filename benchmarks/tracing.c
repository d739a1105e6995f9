/* SPDX-License-Identifier: BSD-3-Clause
 *
 *     tracing self|world BYTES BATCHES CALLS
 *
 * MPI_Allreduce of so many bytes of float, on one rank or on all. Rank 0 prints the median over batches, in ns a call;
 * a batch is long enough to pay for several windows of the trace. benchmarks/tracing.py runs it with and without the
 * tracer in turn.
 */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

static double now_ns(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return 1e9 * (double)t.tv_sec + (double)t.tv_nsec;
}

static int ascending(const void* left, const void* right) {
  const double a = *(const double*)left, b = *(const double*)right;
  return (a > b) - (a < b);
}

int main(int argc, char** argv) {
  MPI_Init(&argc, &argv);
  const MPI_Comm where = strcmp(argv[1], "self") == 0 ? MPI_COMM_SELF : MPI_COMM_WORLD;
  const int count = atoi(argv[2]) / (int)sizeof(float), batches = atoi(argv[3]), calls = atoi(argv[4]);
  float *in = calloc((size_t)count, sizeof *in), *out = calloc((size_t)count, sizeof *out);
  double* ns = calloc((size_t)batches, sizeof *ns);
  for (int batch = 0; batch < batches; ++batch) {
    MPI_Barrier(MPI_COMM_WORLD);
    const double start = now_ns();
    for (int k = 0; k < calls; ++k) MPI_Allreduce(in, out, count, MPI_FLOAT, MPI_SUM, where);
    ns[batch] = (now_ns() - start) / calls;
  }
  qsort(ns, (size_t)batches, sizeof ns[0], ascending);
  int rank;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  if (rank == 0) printf("%.1f\n", ns[batches / 2]);
  MPI_Finalize();
  return 0;
}
