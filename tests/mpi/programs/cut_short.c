/* SPDX-License-Identifier: BSD-3-Clause
 * Adds up many allreduces, and ends with exit code 5; half way, rank 0 runs a shell command. */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>

int main(int argc, char** argv) {
  MPI_Init(&argc, &argv);
  int rank, sum;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  const int calls = atoi(argv[1]);
  long total = 0;
  for (int k = 0; k < calls; ++k) {
    const int mine = k % 7 + rank;
    MPI_Allreduce(&mine, &sum, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
    total += sum;
    if (k == calls / 2 && rank == 0 && system(argv[2]) != 0) MPI_Abort(MPI_COMM_WORLD, 3);
  }
  if (rank == 0) printf("total %ld\n", total);
  MPI_Finalize();
  return 5;
}
