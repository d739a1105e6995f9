/* SPDX-License-Identifier: BSD-3-Clause
 *
 * mismatch count|type|op: one rank makes another call than the others. Wrong on purpose: every rank must get an error.
 */
#include "check.h"

int main(int argc, char **argv) {
  check_start(&argc, &argv);
  MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
  const int other = world_rank == 1;
  const int count = other && strcmp(argv[1], "count") == 0 ? 11 : 10;
  const MPI_Datatype type = other && strcmp(argv[1], "type") == 0 ? MPI_INT : MPI_FLOAT;
  const MPI_Op op = other && strcmp(argv[1], "op") == 0 ? MPI_MAX : MPI_SUM;
  float input[11] = {0}, output[11];
  CHECK(allreduce(input, output, 10, MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD) == MPI_SUCCESS, "equal calls failed");
  const int code = allreduce(input, output, count, type, op, MPI_COMM_WORLD);
  int class = MPI_SUCCESS;
  MPI_Error_class(code, &class);
  CHECK(class == MPI_ERR_ARG, "the error class is %d", class);
  CHECK(allreduce(input, output, 10, MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD) == MPI_SUCCESS, "equal calls failed afterwards");
  return check_finish();
}
