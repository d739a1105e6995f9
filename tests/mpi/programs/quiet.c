/* SPDX-License-Identifier: BSD-3-Clause
 *
 * No non-blocking collective may enter Open MPI's progress engine before it begins. Open MPI numbers the steps of an
 * MPI_Comm_idup and the program's own non-blocking collectives of that communicator as they begin. If one rank
 * progresses between the two and another rank does not, their messages are mixed up, and the program hangs. The program
 * counts the rounds of the engine by a callback of its own.
 *
 * The first calls go to the host. The calls after the blocking ones go to the board.
 */
#define _GNU_SOURCE
#include <dlfcn.h>

#include "check.h"

enum { CALLS = 14, MOST_RANKS = 8, ELEMENTS = 2 };
static const char *const names[CALLS] = {
    "allreduce", "barrier",   "bcast",  "reduce",  "allgather",      "allgatherv",
    "alltoall",  "alltoallv", "gather", "scatter", "reduce_scatter", "reduce_scatter_block",
    "scan",      "exscan"};

static long rounds = 0;
static int count_round(void) {
  ++rounds;
  return 0;
}

static int in[MOST_RANKS * ELEMENTS], out[CALLS][MOST_RANKS * ELEMENTS], counts[MOST_RANKS], places[MOST_RANKS];

#define CALL(Name, name, ...)                                     \
  if (request == NULL)                                            \
    MPI_##Name(__VA_ARGS__, MPI_COMM_WORLD);                      \
  else                                                            \
    MPI_I##name(__VA_ARGS__, MPI_COMM_WORLD, request);            \
  break

static void call(int which, MPI_Request *request) {
  const int n = ELEMENTS;
  int *const to = out[which];
  switch (which) {
    case 0: CALL(Allreduce, allreduce, in, to, n, MPI_INT, MPI_SUM);
    case 1: if (request == NULL) MPI_Barrier(MPI_COMM_WORLD); else MPI_Ibarrier(MPI_COMM_WORLD, request); break;
    case 2: CALL(Bcast, bcast, to, n, MPI_INT, 0);
    case 3: CALL(Reduce, reduce, in, to, n, MPI_INT, MPI_SUM, 0);
    case 4: CALL(Allgather, allgather, in, n, MPI_INT, to, n, MPI_INT);
    case 5: CALL(Allgatherv, allgatherv, in, n, MPI_INT, to, counts, places, MPI_INT);
    case 6: CALL(Alltoall, alltoall, in, n, MPI_INT, to, n, MPI_INT);
    case 7: CALL(Alltoallv, alltoallv, in, counts, places, MPI_INT, to, counts, places, MPI_INT);
    case 8: CALL(Gather, gather, in, n, MPI_INT, to, n, MPI_INT, 0);
    case 9: CALL(Scatter, scatter, in, n, MPI_INT, to, n, MPI_INT, 0);
    case 10: CALL(Reduce_scatter, reduce_scatter, in, to, counts, MPI_INT, MPI_SUM);
    case 11: CALL(Reduce_scatter_block, reduce_scatter_block, in, to, n, MPI_INT, MPI_SUM);
    case 12: CALL(Scan, scan, in, to, n, MPI_INT, MPI_SUM);
    case 13: CALL(Exscan, exscan, in, to, n, MPI_INT, MPI_SUM);
  }
}

/* Begins collectives in a row and completes them together. */
static void begin_all(const char *when) {
  MPI_Request requests[CALLS];
  for (int which = 0; which < CALLS; ++which) {
    const long before = rounds;
    call(which, &requests[which]);
    CHECK(rounds == before, "%s: %s let the host progress", when, names[which]);
  }
  within(60, "completing them");
  MPI_Waitall(CALLS, requests, MPI_STATUSES_IGNORE);
  CHECK(out[0][1] == world_size * in[1], "%s: the sum is %d", when, out[0][1]);
}

int main(int argc, char **argv) {
  check_start(&argc, &argv);
  int (*const observe)(int (*)(void)) = (int (*)(int (*)(void)))dlsym(RTLD_DEFAULT, "opal_progress_register");
  CHECK(observe != NULL, "this is no Open MPI");
  if (observe != NULL) observe(count_round);
  for (int k = 0; k < MOST_RANKS * ELEMENTS; ++k) in[k] = k;
  for (int k = 0; k < MOST_RANKS; ++k) counts[k] = ELEMENTS, places[k] = k * ELEMENTS;
  begin_all("at first");
  const long before = rounds;
  for (int which = 0; which < CALLS; ++which) call(which, NULL);
  MPI_Request receive;
  MPI_Irecv(in, 0, MPI_INT, 0, 0, MPI_COMM_SELF, &receive);
  MPI_Send(in, 0, MPI_INT, 0, 0, MPI_COMM_SELF);
  MPI_Wait(&receive, MPI_STATUS_IGNORE);
  CHECK(rounds > before, "nothing is counted");
  begin_all("later");
  return check_finish();
}
