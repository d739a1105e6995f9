/* SPDX-License-Identifier: BSD-3-Clause
 *
 * mismatch_of_blocks: under OFFBEAT_CHECK=1, the last rank makes other calls than the others, of collectives
 * that have blocks or combine nothing. The calls are wrong on purpose: every rank must get an error each
 * time, and later calls that agree must work.
 */
#include "check.h"

enum { MOST = 64 };

static void is_mismatch(const char *what, int code) {
  int class = MPI_SUCCESS, one = 1, all = 0;
  MPI_Error_class(code, &class);
  CHECK(class == MPI_ERR_ARG, "%s: the error class is %d", what, class);
  const int later = allreduce(&one, &all, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
  CHECK(later == MPI_SUCCESS && all == world_size, "after %s: code %d, sum %d", what, later, all);
}

int main(int argc, char **argv) {
  check_start(&argc, &argv);
  MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
  within(60, "mismatches");
  const MPI_Comm all = MPI_COMM_WORLD;
  const int odd = world_rank == world_size - 1;
  static int from[8 * MOST], to[8 * MOST];
  int counts[MOST], places[MOST];
  for (int rank = 0; rank < world_size; ++rank) counts[rank] = 4, places[rank] = 4 * rank;
  const int n = 4 + odd;
  is_mismatch("bcast", MPI_Bcast(to, n, MPI_INT, 0, all));
  is_mismatch("allgather", MPI_Allgather(from, n, MPI_INT, to, n, MPI_INT, all));
  is_mismatch("alltoall", MPI_Alltoall(from, n, MPI_INT, to, n, MPI_INT, all));
  is_mismatch("gather", MPI_Gather(from, n, MPI_INT, to, n, MPI_INT, 0, all));
  is_mismatch("scatter", MPI_Scatter(from, n, MPI_INT, to, n, MPI_INT, 0, all));
  is_mismatch("allgatherv: one gives less",
              MPI_Allgatherv(from, odd ? 3 : 4, MPI_INT, to, counts, places, MPI_INT, all));
  is_mismatch("allgatherv: all give less", MPI_Allgatherv(from, 3, MPI_INT, to, counts, places, MPI_INT, all));
  CHECK(MPI_Allgatherv(from, 4, MPI_INT, to, counts, places, MPI_INT, all) == MPI_SUCCESS, "equal calls failed");
  CHECK(MPI_Reduce_scatter(from, to, counts, MPI_INT, MPI_SUM, all) == MPI_SUCCESS, "equal calls failed");
  if (odd) counts[0] = 3, counts[1] = 5;
  is_mismatch("allgatherv", MPI_Allgatherv(from, counts[world_rank], MPI_INT, to, counts, places, MPI_INT, all));
  is_mismatch("reduce_scatter", MPI_Reduce_scatter(from, to, counts, MPI_INT, MPI_SUM, all));
  return check_finish();
}
