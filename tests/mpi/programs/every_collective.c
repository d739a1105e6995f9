/* SPDX-License-Identifier: BSD-3-Clause
 * Every collective of MPI in all its forms, a known number of times, with each way to complete a request. The test of
 * the tracer compares with these numbers: 3 blocking calls, 2 non-blocking ones and, where the MPI has it, one persistent request
 * started 4 times, unless the program has an argument. Compiled with LARGE_COUNTS, it calls MPI_Bcast_c and so on. */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>

enum { BLOCKING_CALLS = 3, NONBLOCKING_CALLS = 2, STARTS = 4, ELEMENTS = 3, MOST_RANKS = 8 };
enum form { BLOCKING, NONBLOCKING, PERSISTENT };

#if defined(LARGE_COUNTS)
typedef MPI_Count count_type;
typedef MPI_Aint place_type;
#define FUNCTION(Name) MPI_##Name##_c
#define MPI_Barrier_c MPI_Barrier
#define MPI_Ibarrier_c MPI_Ibarrier
#define MPI_Barrier_init_c MPI_Barrier_init
#else
typedef int count_type, place_type;
#define FUNCTION(Name) MPI_##Name
#endif

static MPI_Comm ring; /* a periodic line: two neighbours, the same on 2 ranks */
static int rank, ranks;
static int in[ELEMENTS * MOST_RANKS], out[ELEMENTS * MOST_RANKS];
static count_type counts[MOST_RANKS];
static place_type places[MOST_RANKS];
static MPI_Aint byte_places[MOST_RANKS];
static MPI_Datatype types[MOST_RANKS];

#if MPI_VERSION >= 4 || defined(OMPI_MAJOR_VERSION) && OMPI_MAJOR_VERSION >= 5 /* which says 3.1 */
enum { HAS_PERSISTENT = 1 };
#define PREPARE(Name, ...) FUNCTION(Name##_init)(__VA_ARGS__)
#else
enum { HAS_PERSISTENT = 0 };
#define PREPARE(Name, ...)
#endif

#define CALL(form, request, Name, name, ...)                                      \
  switch (form) {                                                                 \
    case BLOCKING: FUNCTION(Name)(__VA_ARGS__); break;                            \
    case NONBLOCKING: FUNCTION(I##name)(__VA_ARGS__, request); break;             \
    case PERSISTENT: PREPARE(Name, __VA_ARGS__, MPI_INFO_NULL, request); break;   \
  }                                                                               \
  break

static void call(int collective, enum form form, MPI_Request* r) {
  const int n = ELEMENTS, root = ranks - 1;
  switch (collective) {
    case 0: CALL(form, r, Allreduce, allreduce, in, out, n, MPI_INT, MPI_SUM, ring);
    case 1: CALL(form, r, Barrier, barrier, ring);
    case 2: CALL(form, r, Bcast, bcast, out, n, MPI_INT, root, ring);
    case 3: CALL(form, r, Reduce, reduce, in, out, n, MPI_INT, MPI_MAX, root, ring);
    case 4: CALL(form, r, Allgather, allgather, in, n, MPI_INT, out, n, MPI_INT, ring);
    case 5: CALL(form, r, Allgatherv, allgatherv, in, n, MPI_INT, out, counts, places, MPI_INT, ring);
    case 6: CALL(form, r, Alltoall, alltoall, in, n, MPI_INT, out, n, MPI_INT, ring);
    case 7: CALL(form, r, Alltoallv, alltoallv, in, counts, places, MPI_INT, out, counts, places, MPI_INT, ring);
    case 8: CALL(form, r, Alltoallw, alltoallw, in, counts, places, types, out, counts, places, types, ring);
    case 9: CALL(form, r, Gather, gather, in, n, MPI_INT, out, n, MPI_INT, root, ring);
    case 10: CALL(form, r, Gatherv, gatherv, in, n, MPI_INT, out, counts, places, MPI_INT, root, ring);
    case 11: CALL(form, r, Scatter, scatter, in, n, MPI_INT, out, n, MPI_INT, root, ring);
    case 12: CALL(form, r, Scatterv, scatterv, in, counts, places, MPI_INT, out, n, MPI_INT, root, ring);
    case 13: CALL(form, r, Reduce_scatter, reduce_scatter, in, out, counts, MPI_INT, MPI_SUM, ring);
    case 14: CALL(form, r, Reduce_scatter_block, reduce_scatter_block, in, out, n, MPI_INT, MPI_SUM, ring);
    case 15: CALL(form, r, Scan, scan, in, out, n, MPI_INT, MPI_MIN, ring);
    case 16: CALL(form, r, Exscan, exscan, in, out, n, MPI_INT, MPI_SUM, ring);
    case 17: CALL(form, r, Neighbor_allgather, neighbor_allgather, in, n, MPI_INT, out, n, MPI_INT, ring);
    case 18: CALL(form, r, Neighbor_allgatherv, neighbor_allgatherv, in, n, MPI_INT, out, counts, places, MPI_INT, ring);
    case 19: CALL(form, r, Neighbor_alltoall, neighbor_alltoall, in, n, MPI_INT, out, n, MPI_INT, ring);
    case 20: CALL(form, r, Neighbor_alltoallv, neighbor_alltoallv, in, counts, places, MPI_INT, out, counts, places,
                  MPI_INT, ring);
    case 21: CALL(form, r, Neighbor_alltoallw, neighbor_alltoallw, in, counts, byte_places, types, out, counts,
                  byte_places, types, ring);
  }
}

/* Each way in turn. Beside the request there is one that is nothing. */
static void complete(enum form form, MPI_Request* r) {
  static int way = 0; /* 9 ways, 6 completions for each collective: every way meets every form */
  MPI_Request two[2] = {MPI_REQUEST_NULL, *r};
  MPI_Status statuses[2];
  int flag = 0, index = 0, done = 0, indices[2];
  switch (way++ % 9) {
    case 0: MPI_Wait(&two[1], MPI_STATUS_IGNORE); break;
    case 1: MPI_Waitall(2, two, MPI_STATUSES_IGNORE); break;
    case 2: MPI_Waitany(2, two, &index, MPI_STATUS_IGNORE); break;
    case 3: MPI_Waitsome(2, two, &done, indices, statuses); break;
    case 4: while (!flag) MPI_Test(&two[1], &flag, MPI_STATUS_IGNORE); break;
    case 5:
      /* Versions of MPICH and Intel MPI call this, or MPI_Testany, an error on a persistent collective. */
      if (form == PERSISTENT) MPI_Wait(&two[1], MPI_STATUS_IGNORE);
      else while (!flag) MPI_Testall(2, two, &flag, statuses);
      break;
    case 6:
      if (form == PERSISTENT) MPI_Wait(&two[1], MPI_STATUS_IGNORE);
      else while (!flag) MPI_Testany(2, two, &index, &flag, MPI_STATUS_IGNORE);
      break;
    case 7: while (done <= 0) MPI_Testsome(2, two, &done, indices, MPI_STATUSES_IGNORE); break;
    case 8:
      while (!flag) MPI_Request_get_status(two[1], &flag, MPI_STATUS_IGNORE);
      MPI_Wait(&two[1], MPI_STATUS_IGNORE);
  }
  *r = two[1];
}

int main(int argc, char** argv) {
  MPI_Init(&argc, &argv);
  const int persistent = HAS_PERSISTENT && argc == 1;
  MPI_Comm_size(MPI_COMM_WORLD, &ranks);
  const int periodic = 1;
  MPI_Cart_create(MPI_COMM_WORLD, 1, &ranks, &periodic, 0, &ring);
  MPI_Comm_rank(ring, &rank);
  for (int i = 0; i < MOST_RANKS; ++i) {
    counts[i] = ELEMENTS;
    places[i] = 0;
    types[i] = MPI_INT;
  }
  for (int i = 0; i < ranks; ++i) places[i] = i * ELEMENTS;
  for (int collective = 0; collective < 22; ++collective) {
    MPI_Request request = MPI_REQUEST_NULL;
    /* Displacements of alltoallw are in bytes; all of it goes to one place. */
    if (collective == 8) for (int i = 0; i < ranks; ++i) places[i] = i * ELEMENTS * (int)sizeof(int);
    for (int i = 0; i < BLOCKING_CALLS; ++i) call(collective, BLOCKING, NULL);
    for (int i = 0; i < NONBLOCKING_CALLS; ++i) {
      call(collective, NONBLOCKING, &request);
      complete(NONBLOCKING, &request);
    }
    if (persistent) {
      call(collective, PERSISTENT, &request);
      for (int i = 0; i < STARTS; ++i) {
        if (i % 2 == 0) MPI_Start(&request); else MPI_Startall(1, &request);
        complete(PERSISTENT, &request);
      }
      MPI_Request_free(&request);
    }
    if (collective == 8) for (int i = 0; i < ranks; ++i) places[i] = i * ELEMENTS;
  }
  MPI_Comm_free(&ring);
  MPI_Finalize();
  if (rank == 0) printf("ok: every collective\n");
  return 0;
}
