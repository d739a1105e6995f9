/* SPDX-License-Identifier: BSD-3-Clause
 *
 * endless CALLS [FILE]: calls until it is killed. The last rank stops calling after CALLS calls, so that the
 * others wait for it. Rank 0 makes FILE after the tenth call. */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

int main(int argc, char** argv) {
  MPI_Init(&argc, &argv);
  int rank, ranks, sum, one = 1;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &ranks);
  const long calls = atol(argv[1]);
  for (long i = 0; i < calls; ++i) {
    MPI_Allreduce(&one, &sum, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
    FILE* made = i == 9 && rank == 0 && argc > 2 ? fopen(argv[2], "w") : NULL;
    if (made != NULL) fclose(made);
  }
  if (rank == ranks - 1)
    while (1) sleep(1);
  MPI_Allreduce(&one, &sum, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
  MPI_Finalize();
  return 0;
}
