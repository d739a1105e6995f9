/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Rank 0 calls MPI_Barrier where the others call MPI_Allreduce.
 */
#include "check.h"

int main(int argc, char **argv) {
  check_start(&argc, &argv);
  MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
  int one = 1, all = 0;
  const int code = world_rank == 0 ? MPI_Barrier(MPI_COMM_WORLD)
                                   : MPI_Allreduce(&one, &all, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
  return code != MPI_SUCCESS ? 0 : 1;
}
