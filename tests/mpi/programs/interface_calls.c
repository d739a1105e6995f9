/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Calls every collective of the C interface, and prints which algorithm ran: "ran RANK COLLECTIVE FORM
 * ALGORITHM".
 *
 * interface_calls          each call blocking, begun and tested, begun and awaited, on all ranks and on one
 * interface_calls wrong    rank 1 makes another call than the others
 */
#define _GNU_SOURCE
#include "interface.h"

enum { MOST = 4 * 1000 };
static float in[MOST], out[MOST];
static const char *const names[] = {"allreduce", "barrier", "bcast",   "reduce",              "allgather",
                                    "gather",    "scatter", "alltoall", "reduce_scatter_block",
                                    "scan",      "exscan"};
enum { COLLECTIVES = sizeof names / sizeof *names };

static __typeof__(&offbeat_last_algorithm) last_algorithm;
static __typeof__(&offbeat_error_text) error_text;

static offbeat_call call_of(const char *collective, size_t count, MPI_Comm communicator) {
  offbeat_call call = sum_call(in, out, count, OFFBEAT_FLOAT32, OFFBEAT_SUM, FORTRAN_HANDLE(communicator));
  call.collective = collective;
  return call;
}

static void say(const char *collective, const char *form) {
  const char *algorithm = last_algorithm();
  printf("ran %d %s %s %s\n", world_rank, collective, form, algorithm != NULL ? algorithm : "native");
}

static void each_form(const char *collective, size_t count, MPI_Comm communicator) {
  __typeof__(&offbeat_run) run = function("offbeat_run");
  __typeof__(&offbeat_begin) begin = function("offbeat_begin");
  __typeof__(&offbeat_test) test = function("offbeat_test");
  __typeof__(&offbeat_wait) wait = function("offbeat_wait");
  const offbeat_call call = call_of(collective, count, communicator);
  offbeat_request *request = NULL;
  CHECK(run(&call) == OFFBEAT_OK, "run %s: %s", collective, error_text());
  say(collective, "blocking");
  CHECK(begin(&call, &request) == OFFBEAT_OK, "begin %s: %s", collective, error_text());
  say(collective, "nonblocking");
  for (int complete = 0; !complete;) CHECK(test(&request, &complete) == OFFBEAT_OK, "test %s", collective);
  CHECK(begin(&call, &request) == OFFBEAT_OK, "begin %s: %s", collective, error_text());
  say(collective, "nonblocking");
  CHECK(wait(&request) == OFFBEAT_OK, "wait for %s", collective);
}

/* Every rank gets the error. */
static void mismatch(const char *what) {
  __typeof__(&offbeat_run) run = function("offbeat_run");
  MPI_Comm own;
  MPI_Comm_dup(MPI_COMM_WORLD, &own);
  offbeat_call call = call_of(strcmp(what, "root") == 0 ? "bcast" : "allreduce", 10, own);
  within(60, "equal calls before another %s", what);
  CHECK(run(&call) == OFFBEAT_OK, "equal calls: %s", error_text());
  if (world_rank == 1) {
    if (strcmp(what, "count") == 0) call.count = 11;
    if (strcmp(what, "type") == 0) call.type = OFFBEAT_INT32;
    if (strcmp(what, "op") == 0) call.op = OFFBEAT_MAX;
    if (strcmp(what, "root") == 0) call.root = 1;
    if (strcmp(what, "collective") == 0) call.collective = "allgather";
  }
  within(60, "finding another %s", what);
  CHECK(run(&call) == OFFBEAT_ERROR_MPI, "another %s was not found", what);
  CHECK(strncmp(error_text(), "mismatched ", 11) == 0, "the error says '%s'", error_text());
  MPI_Comm_free(&own);
}

int main(int argc, char **argv) {
  check_start(&argc, &argv);
  last_algorithm = function("offbeat_last_algorithm");
  error_text = function("offbeat_error_text");
  if (argc > 1) {
    const char *const differences[] = {"count", "type", "op", "root", "collective"};
    for (size_t k = 0; k < sizeof differences / sizeof *differences; ++k) mismatch(differences[k]);
  } else {
    for (int k = 0; k < COLLECTIVES; ++k) each_form(names[k], 3, MPI_COMM_WORLD);
    for (int k = 0; k < COLLECTIVES; ++k) each_form(names[k], 1000, MPI_COMM_WORLD);
    for (int k = 0; k < COLLECTIVES; ++k) each_form(names[k], 3, MPI_COMM_SELF);
    const offbeat_call wrong = call_of("gatherv", 1, MPI_COMM_WORLD);
    CHECK(((__typeof__(&offbeat_run))function("offbeat_run"))(&wrong) == OFFBEAT_ERROR_ARGUMENT, "gatherv was accepted");
  }
  fflush(stdout);
  MPI_Finalize();
  return check_failures != 0;
}
