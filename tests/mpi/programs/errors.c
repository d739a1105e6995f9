/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Invalid arguments under MPI_ERRORS_RETURN give an MPI error class on every
 * rank, not a crash and not a hang; and the communicator works afterwards.
 *
 *   --more 1   also a negative count and a null type, with which MPICH itself crashes
 */
#include "check.h"

static void expect_class(const char *what, int code, int expected, int also) {
  int class = -1;
  char text[MPI_MAX_ERROR_STRING] = "no error";
  int length = 0;
  if (code != MPI_SUCCESS) MPI_Error_string(code, text, &length);
  MPI_Error_class(code, &class);
  CHECK(class == expected || class == also, "%s: class %d (%s)", what, class, text);
}

static int handled, handled_code;
static void handler(MPI_Comm *communicator, int *code, ...) {
  (void)communicator;
  ++handled;
  handled_code = *code;
}

int main(int argc, char **argv) {
  check_start(&argc, &argv);
  /* Where there is no communicator, MPI 3 raises on WORLD and MPI 4 on SELF. */
  MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
  MPI_Comm_set_errhandler(MPI_COMM_SELF, MPI_ERRORS_RETURN);
  int input[8] = {0}, output[8] = {0};

  if (option(argc, argv, "--more", 0)) {
    expect_class("negative count", allreduce(input, output, -1, MPI_INT, MPI_SUM, MPI_COMM_WORLD), MPI_ERR_COUNT,
                 MPI_ERR_ARG);
    expect_class("null type", allreduce(input, output, 1, MPI_DATATYPE_NULL, MPI_SUM, MPI_COMM_WORLD),
                 MPI_ERR_TYPE, MPI_ERR_OP);
  }
  expect_class("null operation", allreduce(input, output, 1, MPI_INT, MPI_OP_NULL, MPI_COMM_WORLD), MPI_ERR_OP,
               MPI_ERR_ARG);
  /* Not counted: without a communicator there is nothing to intercept it for. */
  expect_class("null communicator", MPI_Allreduce(input, output, 1, MPI_INT, MPI_SUM, MPI_COMM_NULL),
               MPI_ERR_COMM, MPI_ERR_ARG);
  expect_class("MINLOC of int", allreduce(input, output, 1, MPI_INT, MPI_MINLOC, MPI_COMM_WORLD), MPI_ERR_OP,
               MPI_ERR_ARG);
  expect_class("bitwise and of double", allreduce(input, output, 1, MPI_DOUBLE, MPI_BAND, MPI_COMM_WORLD),
               MPI_ERR_OP, MPI_ERR_ARG);
  expect_class("maximum of complex",
               allreduce(input, output, 1, MPI_C_FLOAT_COMPLEX, MPI_MAX, MPI_COMM_WORLD), MPI_ERR_OP, MPI_ERR_ARG);

  /* The communicator's own handler is called, once, with the right code. */
  MPI_Comm communicator;
  MPI_Errhandler own;
  MPI_Comm_dup(MPI_COMM_WORLD, &communicator);
  MPI_Comm_create_errhandler(handler, &own);
  MPI_Comm_set_errhandler(communicator, own);
  int code = allreduce(input, output, 1, MPI_INT, MPI_OP_NULL, communicator);
  CHECK(handled == 1, "handler called %d times", handled);
  expect_class("code given to the handler", handled_code, MPI_ERR_OP, MPI_ERR_ARG);

  int mine = world_rank + 1, sum = 0;
  code = allreduce(&mine, &sum, 1, MPI_INT, MPI_SUM, communicator);
  CHECK(code == MPI_SUCCESS && sum == world_size * (world_size + 1) / 2, "after the errors: code %d, sum %d", code,
        sum);
  code = allreduce(&mine, &sum, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
  CHECK(code == MPI_SUCCESS && sum == world_size * (world_size + 1) / 2, "after the errors, world: code %d, sum %d",
        code, sum);
  MPI_Errhandler_free(&own);
  MPI_Comm_free(&communicator);
  return check_finish();
}
