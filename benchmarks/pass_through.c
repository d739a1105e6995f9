/* SPDX-License-Identifier: BSD-3-Clause
 *
 * What a call costs that offbeat hands to the host: MPI_Allreduce of one float on MPI_COMM_SELF.
 * Prints the median over batches, in ns a call. benchmarks/overhead.py runs it with and without the preload in turn.
 */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

enum { batches = 51, calls = 20000 };

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
  float in = 1, out = 0;
  double ns[batches];
  for (int batch = 0; batch < batches; ++batch) {
    const double start = now_ns();
    for (int k = 0; k < calls; ++k) MPI_Allreduce(&in, &out, 1, MPI_FLOAT, MPI_SUM, MPI_COMM_SELF);
    ns[batch] = (now_ns() - start) / calls;
  }
  qsort(ns, batches, sizeof ns[0], ascending);
  printf("%.1f\n", ns[batches / 2]);
  MPI_Finalize();
  return out == 1 ? 0 : 1;
}
