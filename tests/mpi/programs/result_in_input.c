/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Reduce-scatters that put each rank's result into its own part of the input, without MPI_IN_PLACE. That is
 * wrong by the standard, and Open MPI takes it: on rank 0 the input is the output, on the others it is not.
 */
#include "check.h"

enum { longest = 30000 };

static int input_of(int rank, int k) { return rank * 7 + k; }

static void scatter(int n, int has_lists) {
  within(60, "%s of %d elements", has_lists ? "reduce_scatter" : "reduce_scatter_block", n);
  int *data = allocate(sizeof *data * (size_t)(n * world_size));
  int *counts = allocate(sizeof *counts * (size_t)world_size);
  for (int k = 0; k < n * world_size; ++k) data[k] = input_of(world_rank, k);
  for (int rank = 0; rank < world_size; ++rank) counts[rank] = n;
  int *mine = data + world_rank * n;
  const int code = has_lists ? MPI_Reduce_scatter(data, mine, counts, MPI_INT, MPI_SUM, MPI_COMM_WORLD)
                             : MPI_Reduce_scatter_block(data, mine, n, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
  CHECK(code == MPI_SUCCESS, "an error");
  long wrong = 0;
  for (int k = 0; k < n; ++k) {
    int sum = 0;
    for (int rank = 0; rank < world_size; ++rank) sum += input_of(rank, world_rank * n + k);
    wrong += mine[k] != sum;
  }
  CHECK(wrong == 0, "%ld of %d elements are wrong", wrong, n);
  free(counts);
  free(data);
}

int main(int argc, char **argv) {
  check_start(&argc, &argv);
  const int lengths[] = {1, 3, 1000, longest};
  for (size_t k = 0; k < sizeof lengths / sizeof *lengths; ++k)
    for (int has_lists = 0; has_lists < 2; ++has_lists) scatter(lengths[k], has_lists);
  return check_finish();
}
