/* SPDX-License-Identifier: BSD-3-Clause
 *
 * is_complete: calls MPICH's MPIX_Request_is_complete until a request is complete.
 */
#include "check.h"

int main(int argc, char **argv) {
  check_start(&argc, &argv);
  int sum = 0;
  allreduce(&world_rank, &sum, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
  for (int round = 0; round < 100; ++round) {
    MPI_Request request;
    int all = 0;
    within(60, "round %d", round);
    if (world_rank == round % world_size) usleep(1000);
    ++check_calls;
    MPI_Iallreduce(&round, &all, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD, &request);
    while (!MPIX_Request_is_complete(request)) MPIX_Stream_progress(MPIX_STREAM_NULL);
    CHECK(all == round * world_size, "round %d: %d", round, all);
    MPI_Wait(&request, MPI_STATUS_IGNORE);
    CHECK(request == MPI_REQUEST_NULL, "round %d: the request is left", round);
  }
  return check_finish();
}
