/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Pauses the trace of its second phase by MPI_Pcontrol, and has a communicator with a name and one without.
 */
#include <mpi.h>
#include <stdio.h>

int main(int argc, char** argv) {
  int rank = 0, value = 1, sum = 0;
  MPI_Comm named, unnamed;
  MPI_Init(&argc, &argv);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_split(MPI_COMM_WORLD, rank % 2, rank, &unnamed);
  MPI_Comm_split(MPI_COMM_WORLD, 0, rank, &named);
  MPI_Comm_set_name(named, "rows");

  for (int i = 0; i < 3; ++i) MPI_Allreduce(&value, &sum, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
  MPI_Pcontrol(0);
  for (int i = 0; i < 5; ++i) MPI_Allreduce(&value, &sum, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
  MPI_Pcontrol(2); /* flush: it does not resume the trace */
  MPI_Barrier(MPI_COMM_WORLD);
  MPI_Pcontrol(1, "further arguments", 3);
  MPI_Bcast(&value, 1, MPI_INT, 0, MPI_COMM_WORLD);
  MPI_Barrier(named);
  MPI_Barrier(unnamed);

  MPI_Comm_free(&named);
  MPI_Comm_free(&unnamed);
  MPI_Finalize();
  puts("ok");
  return 0;
}
