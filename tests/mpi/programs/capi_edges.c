/* SPDX-License-Identifier: BSD-3-Clause
 *
 * capi_edges [ring]: the C interface where there is nothing to serve, and operations whose communicator goes before
 * they are waited for. Needs two ranks at least.
 */
#define _GNU_SOURCE
#include "interface.h"

enum { MANY = 100000 };

static __typeof__(&offbeat_test) test;
static __typeof__(&offbeat_wait) wait_for;

/* Neither kind of call is served, and neither ends the job. */
static void refused(int fortran_communicator, const char *where) {
  float one = 1, sum = 0;
  offbeat_request *request = NULL;
  within(20, "%s", where);
  offbeat_status status = offbeat_allreduce(&one, &sum, 1, OFFBEAT_FLOAT32, OFFBEAT_SUM, fortran_communicator);
  const char *text = ((__typeof__(&offbeat_error_text))function("offbeat_error_text"))();
  CHECK(status == OFFBEAT_ERROR_MPI && strlen(text) > 10, "%s: status %d, '%s'", where, (int)status, text);
  status = offbeat_iallreduce(&one, &sum, 1, OFFBEAT_FLOAT32, OFFBEAT_SUM, fortran_communicator, &request);
  CHECK(status == OFFBEAT_ERROR_MPI && request == NULL, "%s, begun: status %d", where, (int)status);
}

/* With one local rank on each side. The host still serves it. */
static void refused_across(void) {
  MPI_Comm half, across;
  const int is_upper = world_rank > 0, mine = 10 * (world_rank + 1);
  int others, sum = 0, expected = 0;
  within(20, "an inter-communicator");
  MPI_Comm_split(MPI_COMM_WORLD, is_upper, world_rank, &half);
  MPI_Intercomm_create(half, 0, MPI_COMM_WORLD, is_upper ? 0 : 1, 1, &across);
  refused(FORTRAN_HANDLE(across), "an inter-communicator");
  MPI_Comm_remote_size(across, &others);
  for (int rank = 0; rank < world_size; ++rank)
    if ((rank > 0) != is_upper) expected += 10 * (rank + 1);
  MPI_Allreduce(&mine, &sum, 1, MPI_INT, MPI_SUM, across);
  CHECK(sum == expected, "an inter-communicator: sum %d in place of %d", sum, expected);
  MPI_Comm_free(&across);
  MPI_Comm_free(&half);
}

static float input[MANY], output[MANY];

static offbeat_request *begun(MPI_Comm communicator) {
  offbeat_request *request = NULL;
  for (int k = 0; k < MANY; ++k) {
    input[k] = (float)(world_rank + k % 100);
    output[k] = -1;
  }
  const offbeat_status status =
      offbeat_iallreduce(input, output, MANY, OFFBEAT_FLOAT32, OFFBEAT_SUM, FORTRAN_HANDLE(communicator), &request);
  CHECK(status == OFFBEAT_OK && request != NULL, "begun: status %d", (int)status);
  return request;
}

static void free_while_open(int disconnect, int with_test) {
  MPI_Comm communicator, next;
  const char *last = with_test ? "test" : "wait";
  within(20, "%s while open, then offbeat_%s", disconnect ? "disconnected" : "freed", last);
  MPI_Comm_dup(MPI_COMM_WORLD, &communicator);
  offbeat_request *request = begun(communicator);
  if (disconnect) MPI_Comm_disconnect(&communicator);
  else MPI_Comm_free(&communicator);

  /* The next communicator may get the handle and the memory of the freed one. */
  const int mine = world_rank + 1;
  int sum = 0;
  MPI_Comm_dup(MPI_COMM_WORLD, &next);
  MPI_Allreduce(&mine, &sum, 1, MPI_INT, MPI_SUM, next);
  CHECK(sum == world_size * (world_size + 1) / 2, "after the communicator was freed: sum %d", sum);

  offbeat_status status = OFFBEAT_OK;
  if (with_test) {
    for (int complete = 0; complete == 0 && status == OFFBEAT_OK;) status = test(&request, &complete);
  } else {
    status = wait_for(&request);
  }
  int wrong = 0;
  for (int k = 0; k < MANY; ++k)
    wrong += output[k] != (float)(world_size * (world_size - 1) / 2 + world_size * (k % 100));
  CHECK(status == OFFBEAT_OK && request == NULL && wrong == 0, "freed while open: status %d, %d of %d wrong",
        (int)status, wrong, MANY);
  MPI_Comm_free(&next);
}

int main(int argc, char **argv) {
  test = function("offbeat_test");
  wait_for = function("offbeat_wait");
  refused(0, "before MPI_Init");
  check_start(&argc, &argv);
  if (argc > 1) {
    __typeof__(&offbeat_select) select_algorithm = function("offbeat_select");
    CHECK(select_algorithm("allreduce", argv[1], NULL, 0) == OFFBEAT_OK, "%s", argv[1]);
  }
  refused(FORTRAN_HANDLE(MPI_COMM_NULL), "MPI_COMM_NULL");
  refused_across();
  for (int variant = 0; variant < 4; ++variant) free_while_open(variant / 2, variant % 2);

  within(20, "MPI_Finalize with operations open");
  MPI_Comm leftover;
  MPI_Comm_dup(MPI_COMM_WORLD, &leftover);
  static float ones[MANY], sums[MANY];
  const int world = FORTRAN_HANDLE(MPI_COMM_WORLD);
  offbeat_request *on_leftover = begun(leftover), *on_world = NULL;
  CHECK(offbeat_iallreduce(ones, sums, MANY, OFFBEAT_FLOAT32, OFFBEAT_SUM, world, &on_world) == OFFBEAT_OK, "begun");
  check_finish();
  within(20, "after MPI_Finalize");
  CHECK(wait_for(&on_leftover) == OFFBEAT_ERROR_MPI, "a duplicate, waited for after MPI_Finalize");
  CHECK(wait_for(&on_world) == OFFBEAT_ERROR_MPI, "MPI_COMM_WORLD, waited for after MPI_Finalize");
  refused(world, "after MPI_Finalize");
  return check_failures != 0;
}
