/* SPDX-License-Identifier: BSD-3-Clause
 *
 * out_of_requests RANK: RANK makes, starts and completes requests, alone and in long lists, and makes a
 * communicator. Meanwhile libmpi_faulty refuses each piece of memory that RANK asks for, in turn. A call may
 * return an error. Nothing else may come out of it: no exception, no abort.
 */
#define _GNU_SOURCE
#include <dlfcn.h>

#include "check.h"
#include "faulty.h"
#include "persistent.h"

enum { LONG = 2000, REFUSED = 40 };
static faulty_arm_function *arm;
static long refused, in_lists;
static int input[4], output[4];
static MPI_Request list[LONG];

/* A request that was refused can be made again. */
static void make_again(MPI_Comm alone) {
  MPI_Request request = MPI_REQUEST_NULL;
  int code = MPI_Allreduce_init(input, output, 4, MPI_INT, MPI_SUM, alone, MPI_INFO_NULL, &request);
  if (code == MPI_SUCCESS) code = MPI_Start(&request);
  if (code == MPI_SUCCESS) code = MPI_Wait(&request, MPI_STATUS_IGNORE);
  CHECK(code == MPI_SUCCESS, "a second request is refused, too: %d", code);
  if (request != MPI_REQUEST_NULL) MPI_Request_free(&request);
}

/* Makes the calls of one rank on a communicator of its own, so that nobody waits for it. */
static void calls_of_one(long n) {
  MPI_Request request = MPI_REQUEST_NULL, receive;
  MPI_Comm alone, made = MPI_COMM_NULL;
  int flag, index, is_made = 0;
  within(30, "refusal %ld", n);
  MPI_Comm_dup(MPI_COMM_SELF, &alone);
  MPI_Comm_set_errhandler(alone, MPI_ERRORS_RETURN);
  MPI_Allreduce(input, output, 4, MPI_INT, MPI_SUM, alone);
  for (int i = 0; i < LONG; ++i) list[i] = MPI_REQUEST_NULL;
  MPI_Irecv(input, 1, MPI_INT, 0, 1, alone, &receive);
  arm(MEMORY, n, 0);
  if (has_persistent) {
    if (MPI_Allreduce_init(input, output, 4, MPI_INT, MPI_SUM, alone, MPI_INFO_NULL, &request) != MPI_SUCCESS)
      request = MPI_REQUEST_NULL;
    is_made = request != MPI_REQUEST_NULL;
    if (is_made && MPI_Start(&request) == MPI_SUCCESS) {
      ++in_lists;
      list[LONG / 2] = request;
      list[LONG / 4] = receive;
      flag = 0;
      MPI_Testall(LONG, list, &flag, MPI_STATUSES_IGNORE);
      MPI_Testany(LONG, list, &index, &flag, MPI_STATUS_IGNORE);
      list[LONG / 4] = MPI_REQUEST_NULL;
      MPI_Waitall(LONG, list, MPI_STATUSES_IGNORE);
    }
  }
  if (MPI_Comm_dup(alone, &made) != MPI_SUCCESS) made = MPI_COMM_NULL;
  refused += arm(NOTHING, 0, 0) <= 0;
  if (request != MPI_REQUEST_NULL) MPI_Request_free(&request);
  if (made != MPI_COMM_NULL) MPI_Comm_free(&made);
  if (has_persistent && !is_made) make_again(alone);
  MPI_Cancel(&receive);
  MPI_Wait(&receive, MPI_STATUS_IGNORE);
  MPI_Comm_free(&alone);
  CHECK(1, "it goes on");
}

/* Makes the calls that all ranks begin together. After an error the communicator is of no use any more. */
static void calls_of_all(int victim, long n) {
  MPI_Comm all;
  MPI_Request request = MPI_REQUEST_NULL;
  within(30, "common refusal %ld", n);
  MPI_Comm_dup(MPI_COMM_WORLD, &all);
  MPI_Comm_set_errhandler(all, MPI_ERRORS_RETURN);
  ++check_calls;
  MPI_Allreduce(input, output, 4, MPI_INT, MPI_SUM, all);
  if (world_rank == victim) arm(MEMORY, n, 0);
  ++check_calls;
  const int code = MPI_Iallreduce(input, output, 4, MPI_INT, MPI_SUM, all, &request);
  if (code == MPI_SUCCESS) MPI_Wait(&request, MPI_STATUS_IGNORE);
  if (world_rank == victim) refused += arm(NOTHING, 0, 0) <= 0;
  MPI_Barrier(MPI_COMM_WORLD);
  MPI_Comm_free(&all);
}

int main(int argc, char **argv) {
  check_start(&argc, &argv);
  const int victim = atoi(argv[1]);
  arm = (faulty_arm_function *)dlsym(RTLD_DEFAULT, "faulty_arm");
  CHECK(arm != NULL, "libmpi_faulty is not preloaded");
  if (arm == NULL) return check_finish();
  MPI_Comm_set_errhandler(MPI_COMM_SELF, MPI_ERRORS_RETURN);
  allreduce(input, output, 4, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
  calls_of_all(victim, 1); /* the first request of the program */
  if (world_rank == victim)
    for (long n = 1; n <= REFUSED; ++n) calls_of_one(n);
  MPI_Barrier(MPI_COMM_WORLD);
  for (long n = 1; n <= REFUSED / 4; ++n) calls_of_all(victim, n);
  MPI_Allreduce(MPI_IN_PLACE, &in_lists, 1, MPI_LONG, MPI_SUM, MPI_COMM_WORLD);
  CHECK(!has_persistent || in_lists > REFUSED / 2, "only %ld requests were in lists", in_lists);
  MPI_Allreduce(MPI_IN_PLACE, &refused, 1, MPI_LONG, MPI_SUM, MPI_COMM_WORLD);
  if (world_rank == 0) printf("refused: %ld\n", refused);
  return check_finish();
}
