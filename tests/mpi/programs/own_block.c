/* SPDX-License-Identifier: BSD-3-Clause
 *
 * The block that one rank gives itself is already in its place, without MPI_IN_PLACE, and that rank describes its input and
 * its output by different types or counts. MPICH does not reject such a call, so every rank must get its result.
 */
#include "check.h"

enum { ELEMENTS = 3, RANKS = 8, CALLS = 5 };

static const char *const names[CALLS] = {"gather", "scatter", "allgather", "allgatherv", "alltoall"};
static int in[ELEMENTS * RANKS], out[ELEMENTS * RANKS];

static int value(int giver, int block) { return 100 * (giver + 1) + block; }

static void try_call(int which, int aliased_rank, MPI_Datatype whole) {
  const int is_aliased = world_rank == aliased_rank, is_alltoall = which == 4;
  int counts[RANKS], places[RANKS];
  int *const given = out + (which == 0 || which == 2 || which == 3 ? ELEMENTS * world_rank : 0);
  const void *const from = is_aliased ? given : in;
  void *const to = is_aliased && which == 1 ? (void *)(in + ELEMENTS * world_rank) : out;
  const int taken = is_aliased ? 1 : ELEMENTS;
  const MPI_Datatype type = is_aliased ? whole : MPI_INT;
  for (int k = 0; k < ELEMENTS * RANKS; ++k) in[k] = value(world_rank, which == 1 || is_alltoall ? k / ELEMENTS : 0), out[k] = 0;
  if (is_aliased && which != 1) memcpy(given, in, is_alltoall ? sizeof in : sizeof(int) * ELEMENTS);
  for (int rank = 0; rank < RANKS; ++rank) counts[rank] = taken, places[rank] = rank * taken;
  within(20, "%s, rank %d is aliased", names[which], aliased_rank);
  switch (which) {
    case 0: MPI_Gather(from, ELEMENTS, MPI_INT, out, taken, type, 0, MPI_COMM_WORLD); break;
    case 1: MPI_Scatter(in, ELEMENTS, MPI_INT, to, taken, type, 0, MPI_COMM_WORLD); break;
    case 2: MPI_Allgather(from, ELEMENTS, MPI_INT, out, taken, type, MPI_COMM_WORLD); break;
    case 3: MPI_Allgatherv(from, ELEMENTS, MPI_INT, out, counts, places, type, MPI_COMM_WORLD); break;
    case 4: MPI_Alltoall(from, ELEMENTS, MPI_INT, out, taken, type, MPI_COMM_WORLD); break;
  }
  const int *const result = (const int *)to;
  for (int giver = 0; giver < world_size && (which != 0 || world_rank == 0); ++giver) {
    if (which == 1 && giver > 0) break;
    const int found = result[ELEMENTS * giver + ELEMENTS - 1];
    const int expected = value(giver, which == 1 || is_alltoall ? world_rank : 0);
    CHECK(found == expected, "%s, rank %d is aliased: %d from %d, not %d", names[which], aliased_rank, found, giver, expected);
  }
}

int main(int argc, char **argv) {
  MPI_Datatype whole;
  check_start(&argc, &argv);
  MPI_Type_contiguous(ELEMENTS, MPI_INT, &whole);
  MPI_Type_commit(&whole);
  for (int which = 0; which < CALLS; ++which)
    for (int rank = 0; rank < (which < 2 ? 1 : world_size); ++rank) try_call(which, rank, whole);
  MPI_Type_free(&whole);
  alarm(0);
  return check_finish();
}
