/* SPDX-License-Identifier: BSD-3-Clause
 *
 * lists_at_root ahead | mismatch WHAT: gatherv and scatterv, in which only the root knows all lengths.
 *
 * ahead: ranks with short blocks wait for nobody. Each makes calls for which natively the root need not be there, and
 * then sends the root a message without which the root makes none of them.
 * mismatch: the root of a WHAT takes or gives another length than rank 1 expects. Both get an error, or the other rank
 * has left; nobody waits forever.
 */
#include "check.h"

enum { MOST_RANKS = 8, CALLS = 20, LONGEST = 100000 };

static int from[LONGEST * MOST_RANKS], to[LONGEST * MOST_RANKS];
static int counts[MOST_RANKS], places[MOST_RANKS];

static int count_of(int rank, int call) { return (rank + call) % 4 * (rank + 1); }

static void describe(int call) {
  for (int rank = 0, place = 0; rank < world_size; ++rank) {
    counts[rank] = count_of(rank, call);
    places[rank] = place;
    place += counts[rank] + 1;
  }
}

static void ahead(void) {
  int go = 0;
  for (int k = 0; k < LONGEST; ++k) from[k] = world_rank * 1000 + k;
  MPI_Gatherv(from, 0, MPI_INT, to, counts, places, MPI_INT, 0, MPI_COMM_WORLD); /* sets the communicator up */
  MPI_Barrier(MPI_COMM_WORLD);
  within(30, "calls of ranks that are ahead of the root");
  if (world_rank == 0)
    for (int rank = 1; rank < world_size; ++rank)
      MPI_Recv(&go, 1, MPI_INT, rank, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
  for (int call = 0; call < CALLS; ++call) {
    describe(call);
    MPI_Gatherv(from, count_of(world_rank, call), MPI_INT, to, counts, places, MPI_INT, 0, MPI_COMM_WORLD);
    if (world_rank != 0) continue;
    for (int rank = 0; rank < world_size; ++rank)
      for (int k = 0; k < counts[rank]; ++k)
        CHECK(to[places[rank] + k] == rank * 1000 + k, "call %d: element %d of rank %d", call, k, rank);
  }
  if (world_rank != 0) MPI_Send(&go, 1, MPI_INT, 0, 0, MPI_COMM_WORLD);
  /* The root of a scatterv is ahead, and the others come after its message. */
  if (world_rank != 0) MPI_Recv(&go, 1, MPI_INT, 0, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
  for (int call = 0; call < CALLS; ++call) {
    describe(call);
    const int mine = count_of(world_rank, call);
    MPI_Scatterv(from, counts, places, MPI_INT, to, mine, MPI_INT, 0, MPI_COMM_WORLD);
    for (int k = 0; k < mine; ++k)
      CHECK(to[k] == places[world_rank] + k, "call %d: element %d of a scatterv", call, k);
  }
  for (int rank = 1; rank < world_size && world_rank == 0; ++rank)
    MPI_Send(&go, 1, MPI_INT, rank, 0, MPI_COMM_WORLD);
}

/* `more` elements at the root. The rank that takes must get an error. */
static void mismatch(const char *what, int length, int more) {
  MPI_Comm on;
  MPI_Comm_dup(MPI_COMM_WORLD, &on);
  MPI_Comm_set_errhandler(on, MPI_ERRORS_RETURN);
  within(30, "%s of %d with %d more", what, length, more);
  for (int rank = 0; rank < world_size; ++rank) counts[rank] = length, places[rank] = LONGEST * rank;
  if (world_rank == 0) counts[1] += more;
  const int is_gather = strcmp(what, "gatherv") == 0;
  const int code = is_gather ? MPI_Gatherv(from, length, MPI_INT, to, counts, places, MPI_INT, 0, on)
                             : MPI_Scatterv(from, counts, places, MPI_INT, to, length, MPI_INT, 0, on);
  int class = MPI_SUCCESS;
  MPI_Error_class(code, &class);
  if (world_rank == (is_gather ? 0 : 1)) CHECK(class == MPI_ERR_ARG, "the error class is %d", class);
  MPI_Barrier(MPI_COMM_WORLD);
}

int main(int argc, char **argv) {
  check_start(&argc, &argv);
  if (strcmp(argv[1], "ahead") == 0) {
    ahead();
  } else {
    mismatch(argv[2], 3, 1);
    mismatch(argv[2], 3, -1);
    mismatch(argv[2], 700, 600); /* another kind of slot */
    mismatch(argv[2], 900, 600); /* a slot here, a window there */
    mismatch(argv[2], 1500, -900);
    mismatch(argv[2], 50000, 1);
  }
  alarm(0);
  return check_finish();
}
