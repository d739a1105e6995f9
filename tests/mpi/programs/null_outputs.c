/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Functions that complete requests get a null pointer for a result, with a collective in the list. Rank 0 prints the class
 * of each error; the lines are to be compared with those of a run without offbeat. The collective stays active.
 */
#include "check.h"

enum { CASES = 8 };
static const char *const names[CASES] = {"waitany index", "testany index", "testany flag", "waitsome count",
                                         "waitsome indices", "testsome count", "testsome indices", "statuses"};

static int call(int number, MPI_Request *request) {
  int index, flag, done, indices[1];
  MPI_Status status;
  switch (number) {
    case 0: return MPI_Waitany(1, request, NULL, &status);
    case 1: return MPI_Testany(1, request, NULL, &flag, &status);
    case 2: return MPI_Testany(1, request, &index, NULL, &status);
    case 3: return MPI_Waitsome(1, request, NULL, indices, &status);
    case 4: return MPI_Waitsome(1, request, &done, NULL, &status);
    case 5: return MPI_Testsome(1, request, NULL, indices, &status);
    case 6: return MPI_Testsome(1, request, &done, NULL, &status);
    default: return MPI_STATUSES_IGNORE == NULL ? MPI_ERR_ARG : MPI_Waitall(1, request, NULL);
  }
}

int main(int argc, char **argv) {
  check_start(&argc, &argv);
  MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
  MPI_Comm_set_errhandler(MPI_COMM_SELF, MPI_ERRORS_RETURN);
  for (int number = 0; number < CASES; ++number) {
    int mine = 1, sum = 0, class = 0;
    MPI_Request request;
    within(20, "%s", names[number]);
    allreduce(&mine, &sum, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
    sum = 0;
    MPI_Iallreduce(&mine, &sum, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD, &request);
    MPI_Error_class(call(number, &request), &class);
    const int is_left = request != MPI_REQUEST_NULL;
    MPI_Wait(&request, MPI_STATUS_IGNORE);
    CHECK(sum == world_size, "%s: the sum is %d", names[number], sum);
    if (world_rank == 0) printf("%s: class %d, left %d\n", names[number], class, is_left);
  }
  alarm(0);
  return check_finish();
}
