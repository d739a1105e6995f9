/* SPDX-License-Identifier: BSD-3-Clause
 *
 * tooled [threads]: the calls that tool.c counts.
 */
#include "check.h"

static void sum_ranks(MPI_Comm communicator) {
  const int mine = world_rank + 1;
  int sum = 0;
  allreduce(&mine, &sum, 1, MPI_INT, MPI_SUM, communicator);
  CHECK(sum == world_size * (world_size + 1) / 2, "sum %d", sum);
}

int main(int argc, char **argv) {
  MPI_Comm freed, disconnected;
  if (argc > 1) {
    int provided;
    MPI_Init_thread(&argc, &argv, MPI_THREAD_SERIALIZED, &provided);
  } else {
    MPI_Init(&argc, &argv);
  }
  MPI_Comm_rank(MPI_COMM_WORLD, &world_rank);
  MPI_Comm_size(MPI_COMM_WORLD, &world_size);
  within(20, "calls under a tool");
  MPI_Barrier(MPI_COMM_WORLD);
  MPI_Comm_dup(MPI_COMM_WORLD, &freed);
  MPI_Comm_dup(MPI_COMM_WORLD, &disconnected);
  sum_ranks(MPI_COMM_WORLD);
  for (int k = 0; k < 2; ++k) sum_ranks(freed);
  for (int k = 0; k < 2; ++k) sum_ranks(disconnected);
  MPI_Comm_free(&freed);
  MPI_Comm_disconnect(&disconnected);
  return check_finish();
}
