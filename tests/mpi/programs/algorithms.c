/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Calls each collective that offbeat serves, in all its forms, short and long. After each call the program
 * prints which algorithm ran, as offbeat_last_algorithm says: "ran RANK COLLECTIVE FORM ALGORITHM".
 *
 * algorithms [without-persistent]
 */
#define _GNU_SOURCE
#include "interface.h"

enum { COLLECTIVES = 16, MOST_RANKS = 4, LENGTHS = 2, STARTS = 2 };
enum form { BLOCKING, NONBLOCKING, PERSISTENT };
static const char *const form_names[] = {"blocking", "nonblocking", "persistent"};
static const char *const names[COLLECTIVES] = {
    "allreduce", "barrier",   "bcast",  "reduce",  "allgather",      "allgatherv",
    "alltoall",  "alltoallv", "gather", "scatter", "reduce_scatter", "reduce_scatter_block",
    "scan",      "exscan",    "gatherv", "scatterv"};
static const int lengths[LENGTHS] = {2, 20000};
enum { LONGEST = 20000 };

static int in[LONGEST * MOST_RANKS], out[2][LONGEST * MOST_RANKS], counts[MOST_RANKS], places[MOST_RANKS];

#if MPI_VERSION >= 4 || defined(OMPI_MAJOR_VERSION) && OMPI_MAJOR_VERSION >= 5 /* which says 3.1 */
enum { HAS_PERSISTENT = 1 };
#define PREPARE(Name, ...) MPI_##Name##_init(__VA_ARGS__)
#else
enum { HAS_PERSISTENT = 0 };
#define PREPARE(Name, ...)
#endif

#define CALL(Name, name, ...)                                               \
  switch (form) {                                                           \
    case BLOCKING: MPI_##Name(__VA_ARGS__); break;                          \
    case NONBLOCKING: MPI_I##name(__VA_ARGS__, r); break;                   \
    case PERSISTENT: PREPARE(Name, __VA_ARGS__, MPI_INFO_NULL, r); break;   \
  }                                                                         \
  break

static void call(int which, enum form form, int n, int *to, MPI_Comm c, MPI_Request *r) {
  for (int k = 0; k < MOST_RANKS; ++k) counts[k] = n, places[k] = k * n;
  switch (which) {
    case 0: CALL(Allreduce, allreduce, in, to, n, MPI_INT, MPI_SUM, c);
    case 1: CALL(Barrier, barrier, c);
    case 2: CALL(Bcast, bcast, to, n, MPI_INT, 0, c);
    case 3: CALL(Reduce, reduce, in, to, n, MPI_INT, MPI_SUM, 0, c);
    case 4: CALL(Allgather, allgather, in, n, MPI_INT, to, n, MPI_INT, c);
    case 5: CALL(Allgatherv, allgatherv, in, n, MPI_INT, to, counts, places, MPI_INT, c);
    case 6: CALL(Alltoall, alltoall, in, n, MPI_INT, to, n, MPI_INT, c);
    case 7: CALL(Alltoallv, alltoallv, in, counts, places, MPI_INT, to, counts, places, MPI_INT, c);
    case 8: CALL(Gather, gather, in, n, MPI_INT, to, n, MPI_INT, 0, c);
    case 9: CALL(Scatter, scatter, in, n, MPI_INT, to, n, MPI_INT, 0, c);
    case 10: CALL(Reduce_scatter, reduce_scatter, in, to, counts, MPI_INT, MPI_SUM, c);
    case 11: CALL(Reduce_scatter_block, reduce_scatter_block, in, to, n, MPI_INT, MPI_SUM, c);
    case 12: CALL(Scan, scan, in, to, n, MPI_INT, MPI_SUM, c);
    case 13: CALL(Exscan, exscan, in, to, n, MPI_INT, MPI_SUM, c);
    case 14: CALL(Gatherv, gatherv, in, n, MPI_INT, to, counts, places, MPI_INT, 0, c);
    case 15: CALL(Scatterv, scatterv, in, counts, places, MPI_INT, to, n, MPI_INT, 0, c);
  }
}

static const char *ran(void) {
  static __typeof__(&offbeat_last_algorithm) last_algorithm = NULL;
  if (last_algorithm == NULL) last_algorithm = function("offbeat_last_algorithm");
  const char *algorithm = last_algorithm();
  return algorithm != NULL ? algorithm : "native";
}

static void say(int which, enum form form, const char *algorithm) {
  printf("ran %d %s %s %s\n", world_rank, names[which], form_names[form], algorithm);
}

static void all_forms(int which, int n, MPI_Comm c, int has_persistent) {
  MPI_Request request;
  call(which, BLOCKING, n, out[0], c, NULL);
  say(which, BLOCKING, ran());
  call(which, NONBLOCKING, n, out[0], c, &request);
  say(which, NONBLOCKING, ran());
  MPI_Wait(&request, MPI_STATUS_IGNORE);
  if (!has_persistent) return;
  call(which, PERSISTENT, n, out[0], c, &request);
  for (int k = 0; k < STARTS; ++k) {
    MPI_Start(&request);
    say(which, PERSISTENT, ran());
    MPI_Wait(&request, MPI_STATUS_IGNORE);
  }
  MPI_Request_free(&request);
}

/* One call starts three collectives, each of which runs the algorithm that it ran when it was started alone. */
static void all_at_once(void) {
  const int started[] = {1, 0, 6};
  MPI_Request requests[3];
  const char *alone[3];
  for (int k = 0; k < 3; ++k) {
    call(started[k], PERSISTENT, lengths[k % 2], out[k % 2], MPI_COMM_WORLD, &requests[k]);
    MPI_Start(&requests[k]);
    alone[k] = ran();
    say(started[k], PERSISTENT, alone[k]);
    MPI_Wait(&requests[k], MPI_STATUS_IGNORE);
  }
  MPI_Startall(3, requests);
  for (int k = 0; k < 3; ++k) say(started[k], PERSISTENT, alone[k]);
  MPI_Waitall(3, requests, MPI_STATUSES_IGNORE);
  for (int k = 0; k < 3; ++k) MPI_Request_free(&requests[k]);
}

int main(int argc, char **argv) {
  check_start(&argc, &argv);
  const int has_persistent = HAS_PERSISTENT && argc == 1;
  for (int k = 0; k < LONGEST * MOST_RANKS; ++k) in[k] = k;
  for (int length = 0; length < LENGTHS; ++length)
    for (int which = 0; which < COLLECTIVES; ++which) all_forms(which, lengths[length], MPI_COMM_WORLD, has_persistent);
  if (has_persistent) all_at_once();
  for (int which = 0; which < COLLECTIVES; ++which) all_forms(which, lengths[0], MPI_COMM_SELF, has_persistent);
  fflush(stdout);
  MPI_Finalize();
  return 0;
}
