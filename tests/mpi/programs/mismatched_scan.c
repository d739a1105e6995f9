/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Rank 1 calls MPI_Scan with another count than rank 0.
 */
#include "check.h"

int main(int argc, char **argv) {
  check_start(&argc, &argv);
  MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
  const int in[2] = {1, 2};
  int out[2];
  const int code = MPI_Scan(in, out, world_rank == 1 ? 2 : 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
  CHECK(code != MPI_SUCCESS, "another count was not found");
  return check_finish();
}
