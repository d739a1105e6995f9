/* SPDX-License-Identifier: BSD-3-Clause
 *
 * lists_at_root ahead | less WHAT | more WHAT: gatherv and scatterv, in which only the root knows all lengths.
 *
 * ahead: ranks with short blocks wait for nobody. Each makes calls for which natively the root need not be there, and
 * then sends the root a message without which the root makes none of them.
 * less: a rank gives less than the other one has room for. All MPIs accept that.
 * more: a rank gives more than that. Ranks that have not left get an error, of one class; nobody waits forever.
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

/* Blocks have 5 elements, but rank `other` gives, or is given, `given`, where there is room for `taken`. Of the memory
 * that takes them only every `step`th integer belongs to an element. */
static int call(const char *what, int other, int given, int taken, int step, MPI_Comm on) {
  const int is_gather = strcmp(what, "gatherv") == 0, is_other = world_rank == other;
  MPI_Datatype spread;
  MPI_Type_create_resized(MPI_INT, 0, (MPI_Aint)sizeof(int) * step, &spread);
  MPI_Type_commit(&spread);
  for (int rank = 0; rank < world_size; ++rank) {
    counts[rank] = rank != other ? 5 : is_gather ? taken : given;
    places[rank] = LONGEST * rank / (is_gather ? step : 1);
  }
  for (int k = 0; k < LONGEST * world_size; ++k) from[k] = world_rank * 10 * LONGEST + k, to[k] = -1;
  const int code = is_gather
                       ? MPI_Gatherv(from, is_other ? given : 5, MPI_INT, to, counts, places, spread, 0, on)
                       : MPI_Scatterv(from, counts, places, MPI_INT, to, is_other ? taken : 5, spread, 0, on);
  MPI_Type_free(&spread);
  return code;
}

static void expect(const int *place, int first, int count, int step) {
  for (int k = 0; k < LONGEST; ++k) {
    const int expected = k % step == 0 && k / step < count ? first + k / step : -1;
    CHECK(place[k] == expected, "%s: %d is %d instead of %d", check_doing, k, place[k], expected);
  }
}

static void less(const char *what, int given, int taken) {
  for (int other = 0; other < 2; ++other)
    for (int step = 1; step <= 2; ++step) {
      within(30, "%s: rank %d gives %d into %d, step %d", what, other, given, taken, step);
      CHECK(call(what, other, given, taken, step, MPI_COMM_WORLD) == MPI_SUCCESS, "an error");
      if (strcmp(what, "scatterv") == 0)
        expect(to, LONGEST * world_rank, world_rank == other ? given : 5, step);
      else
        for (int rank = 0; rank < world_size && world_rank == 0; ++rank)
          expect(to + LONGEST * rank, rank * 10 * LONGEST, rank == other ? given : 5, step);
    }
}

static void more(const char *what, int given, int taken) {
  MPI_Comm on;
  MPI_Comm_dup(MPI_COMM_WORLD, &on);
  MPI_Comm_set_errhandler(on, MPI_ERRORS_RETURN);
  within(30, "%s of %d into %d", what, given, taken);
  int class = MPI_SUCCESS;
  MPI_Error_class(call(what, 1, given, taken, 1, on), &class);
  const int is_taker = world_rank == (strcmp(what, "gatherv") == 0 ? 0 : 1);
  CHECK(class == MPI_ERR_TRUNCATE || (class == MPI_SUCCESS && !is_taker), "the error class is %d", class);
  /* Whoever has left hears of it in the next call. */
  MPI_Error_class(MPI_Barrier(on), &class);
  CHECK(class == MPI_ERR_TRUNCATE || class == MPI_ERR_OTHER, "the error class is %d", class);
  MPI_Barrier(MPI_COMM_WORLD);
}

int main(int argc, char **argv) {
  check_start(&argc, &argv);
  if (strcmp(argv[1], "ahead") == 0) {
    ahead();
  } else {
    void (*test)(const char *, int, int) = strcmp(argv[1], "less") == 0 ? less : more;
    /* In a slot, in another kind of slot, in a slot with room for what fits no slot, and in windows. */
    const int lengths[][2] = {{3, 10}, {600, 1300}, {900, 1500}, {3, 45000}, {20000, 49999}};
    for (size_t k = 0; k < sizeof lengths / sizeof *lengths; ++k)
      test(argv[2], lengths[k][test == more], lengths[k][test != more]);
  }
  alarm(0);
  return check_finish();
}
