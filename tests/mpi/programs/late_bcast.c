/* SPDX-License-Identifier: BSD-3-Clause
 *
 * The first collective is a bcast, to which rank 1 comes three seconds late.
 */
#include <mpi.h>
#include <unistd.h>

int main(int argc, char **argv) {
  int rank, value = 1;
  MPI_Init(&argc, &argv);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  if (rank == 1) sleep(3);
  MPI_Bcast(&value, 1, MPI_INT, 0, MPI_COMM_WORLD);
  MPI_Finalize();
  return 0;
}
