/* SPDX-License-Identifier: BSD-3-Clause
 *
 * A persistent allreduce that the host starts (OFFBEAT_ALLREDUCE=native), completed while a collective of offbeat's is
 * under way. Rank 0 starts it late: nobody may have the result before.
 */
#include "check.h"

enum { rounds = 12 };

int main(int argc, char **argv) {
  check_start(&argc, &argv);
  MPI_Comm other;
  MPI_Comm_dup(MPI_COMM_WORLD, &other);
  MPI_Barrier(MPI_COMM_WORLD);
  MPI_Barrier(other);
  int input, output;
  MPI_Request persistent, barrier;
  MPI_Allreduce_init(&input, &output, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD, MPI_INFO_NULL, &persistent);
  for (int round = 0; round < rounds; ++round) {
    within(60, "round %d", round);
    input = world_rank + round;
    output = -1;
    MPI_Ibarrier(other, &barrier);
    if (world_rank == 0) usleep(20000);
    MPI_Start(&persistent);
    int flag = 0;
    MPI_Request both[] = {persistent, barrier};
    switch (round % 4) {
      case 0:
        MPI_Wait(&persistent, MPI_STATUS_IGNORE);
        break;
      case 1:
        MPI_Waitall(2, both, MPI_STATUSES_IGNORE);
        barrier = both[1];
        break;
      case 2:
        while (!flag) MPI_Test(&persistent, &flag, MPI_STATUS_IGNORE);
        break;
      default:
        while (!flag) MPI_Request_get_status(persistent, &flag, MPI_STATUS_IGNORE);
        MPI_Wait(&persistent, MPI_STATUS_IGNORE);
    }
    const int expected = world_size * (world_size - 1) / 2 + world_size * round;
    CHECK(output == expected, "round %d: %d instead of %d", round, output, expected);
    MPI_Wait(&barrier, MPI_STATUS_IGNORE);
  }
  MPI_Request_free(&persistent);
  MPI_Comm_free(&other);
  return check_finish();
}
