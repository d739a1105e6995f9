/* SPDX-License-Identifier: BSD-3-Clause
 *
 * reduce_in_place [blocking]: calls MPI_Reduce, and MPI_Ireduce, with MPI_IN_PLACE on every rank. By the
 * standard only the root may pass it. MPICH and its family do not report the error on the other ranks, so
 * programs rely on this.
 */
#include "check.h"

int main(int argc, char **argv) {
  check_start(&argc, &argv);
  const int counts[] = {1, 1000, 100000};
  int *data = allocate(sizeof(int) * 100000);
  for (int c = 0; c < 3; ++c) {
    for (int round = 0; round < (argc > 1 ? 3 : 4); ++round) {
      const int root = round % world_size;
      MPI_Request request = MPI_REQUEST_NULL;
      within(60, "%d elements, round %d", counts[c], round);
      for (int i = 0; i < counts[c]; ++i) data[i] = world_rank + 1;
      if (round < 3) {
        MPI_Reduce(MPI_IN_PLACE, data, counts[c], MPI_INT, MPI_SUM, root, MPI_COMM_WORLD);
      } else {
        MPI_Ireduce(MPI_IN_PLACE, data, counts[c], MPI_INT, MPI_SUM, root, MPI_COMM_WORLD, &request);
        MPI_Wait(&request, MPI_STATUS_IGNORE);
      }
      int wrong = 0;
      for (int i = 0; world_rank == root && i < counts[c]; ++i) wrong += data[i] != world_size * (world_size + 1) / 2;
      CHECK(wrong == 0, "%d elements to %d: %d wrong", counts[c], root, wrong);
    }
    int one = 1, all = 0;
    allreduce(&one, &all, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
    CHECK(all == world_size, "afterwards the sum is %d", all);
  }
  free(data);
  return check_finish();
}
