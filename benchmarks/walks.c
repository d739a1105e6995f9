// SPDX-License-Identifier: BSD-3-Clause
// Makes one kind of call often, each time from walk(), so that a profiler can tell what a call passes through.
//
//     walks allreduce|bcast|iallgather|alltoallv CALLS
#include <mpi.h>
#include <stdlib.h>
#include <string.h>

enum { long_bytes = 1 << 20, short_ints = 2, most_ranks = 64 };

static int rank, ranks, counts[most_ranks], places[most_ranks];
static char *mine, *theirs;

static void allreduce(void) {
  const double value = rank;
  double sum;
  MPI_Allreduce(&value, &sum, 1, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD);
}

static void bcast(void) { MPI_Bcast(mine, long_bytes, MPI_BYTE, 0, MPI_COMM_WORLD); }

static void iallgather(void) {
  MPI_Request request;
  MPI_Iallgather(mine, short_ints, MPI_INT, theirs, short_ints, MPI_INT, MPI_COMM_WORLD, &request);
  MPI_Wait(&request, MPI_STATUS_IGNORE);
}

static void alltoallv(void) {
  MPI_Alltoallv(mine, counts, places, MPI_INT, theirs, counts, places, MPI_INT, MPI_COMM_WORLD);
}

static const struct {
  const char* name;
  void (*call)(void);
} kinds[] = {{"allreduce", allreduce}, {"bcast", bcast}, {"iallgather", iallgather}, {"alltoallv", alltoallv}};

__attribute__((noinline)) void walk(int kind) { kinds[kind].call(); }

int main(int argc, char** argv) {
  MPI_Init(&argc, &argv);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &ranks);
  if (argc != 3 || ranks > most_ranks) MPI_Abort(MPI_COMM_WORLD, 2);
  mine = calloc(1, long_bytes);
  theirs = calloc(1, long_bytes);
  for (int each = 0; each < ranks; ++each) {
    counts[each] = short_ints;
    places[each] = short_ints * each;
  }
  int kind = 0;
  while (kind < 3 && strcmp(argv[1], kinds[kind].name) != 0) ++kind;
  // Only a blocking call can set a communicator up.
  MPI_Allgather(mine, short_ints, MPI_INT, theirs, short_ints, MPI_INT, MPI_COMM_WORLD);
  for (int call = 0; call < atoi(argv[2]); ++call) walk(kind);
  MPI_Finalize();
  return 0;
}
