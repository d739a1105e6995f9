/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Calls on a communicator of one rank that give more than they take, which is an error of the program. Nothing
 * beyond the output may be written, in all forms of the call.
 */
#include "check.h"

enum { GIVEN = 4, TAKEN = 3, UNTOUCHED = -7 };

static int input[GIVEN] = {1, 2, 3, 4};
static int output[GIVEN];

static void look(const char *call) {
  CHECK(output[TAKEN] == UNTOUCHED, "%s wrote %d behind its output", call, output[TAKEN]);
  for (int k = 0; k < GIVEN; ++k) output[k] = UNTOUCHED;
}

static void wait_for(int code, MPI_Request *request) {
  if (code == MPI_SUCCESS && *request != MPI_REQUEST_NULL) MPI_Wait(request, MPI_STATUS_IGNORE);
}

int main(int argc, char **argv) {
  check_start(&argc, &argv);
  MPI_Comm_set_errhandler(MPI_COMM_SELF, MPI_ERRORS_RETURN);
  for (int k = 0; k < GIVEN; ++k) output[k] = UNTOUCHED;
  MPI_Request request = MPI_REQUEST_NULL;
  MPI_Gather(input, GIVEN, MPI_INT, output, TAKEN, MPI_INT, 0, MPI_COMM_SELF);
  look("MPI_Gather");
  MPI_Allgather(input, GIVEN, MPI_INT, output, TAKEN, MPI_INT, MPI_COMM_SELF);
  look("MPI_Allgather");
  MPI_Alltoall(input, GIVEN, MPI_INT, output, TAKEN, MPI_INT, MPI_COMM_SELF);
  look("MPI_Alltoall");
  wait_for(MPI_Igather(input, GIVEN, MPI_INT, output, TAKEN, MPI_INT, 0, MPI_COMM_SELF, &request), &request);
  look("MPI_Igather");
  if (check_finish() != 0) return 1;
  return 0;
}
