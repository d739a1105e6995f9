// SPDX-License-Identifier: BSD-3-Clause
// An allreduce of two ranks by messages, and in turn the exchange of the same bytes by the host itself: what
// offbeat does around its messages is the difference.
//
//     mpicc -O2 benchmarks/exchange.c -o exchange
//     OFFBEAT_ALLREDUCE=recursive_doubling offbeat run -n 2 -- ./exchange [BYTES]
//
// Prints nanoseconds: medians of batches, on the slower rank.
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>

enum { batches = 201, calls = 200 };

static int compare(const void* a, const void* b) {
  const double x = *(const double*)a, y = *(const double*)b;
  return (x > y) - (x < y);
}

int main(int argc, char** argv) {
  MPI_Init(&argc, &argv);
  int rank, ranks;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &ranks);
  if (ranks != 2) {
    fprintf(stderr, "exchange: needs 2 ranks\n");
    MPI_Abort(MPI_COMM_WORLD, 1);
  }
  const int bytes = argc > 1 ? atoi(argv[1]) : 8;
  const int count = bytes / (int)sizeof(float);
  float* mine = calloc((size_t)count, sizeof(float));
  float* theirs = calloc((size_t)count, sizeof(float));
  double times[2][batches];
  for (int k = 0; k < 2 * batches; ++k) {
    PMPI_Barrier(MPI_COMM_WORLD);
    const double begin = MPI_Wtime();
    for (int call = 0; call < calls; ++call) {
      if (k % 2 == 0) {
        PMPI_Sendrecv(mine, bytes, MPI_BYTE, 1 - rank, 1, theirs, bytes, MPI_BYTE, 1 - rank, 1,
                      MPI_COMM_WORLD, MPI_STATUS_IGNORE);
      } else {
        MPI_Allreduce(mine, theirs, count, MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD);
      }
    }
    const double ns = (MPI_Wtime() - begin) * 1e9 / calls;
    PMPI_Allreduce(&ns, &times[k % 2][k / 2], 1, MPI_DOUBLE, MPI_MAX, MPI_COMM_WORLD);
  }
  for (int way = 0; way < 2; ++way) qsort(times[way], batches, sizeof(double), compare);
  const double exchange = times[0][batches / 2], allreduce = times[1][batches / 2];
  if (rank == 0)
    printf("%d bytes: MPI_Sendrecv %.0f, MPI_Allreduce %.0f, difference %.0f\n", bytes, exchange, allreduce,
           allreduce - exchange);
  MPI_Finalize();
}
