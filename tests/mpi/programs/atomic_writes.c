/* SPDX-License-Identifier: BSD-3-Clause
 *
 * atomic_writes FILE ROUNDS: every rank begins to write its part of a file in atomic mode and computes until
 * the write is surely over. After a collective it reads the part of its neighbour.
 *
 * Open MPI locks a part when the write begins, and releases the lock in a turn of its own after the write has
 * ended. If the collective gives no turn, each rank keeps a lock for which another rank waits.
 */
#include "check.h"

enum { NUMBERS = 1000, COMPUTE_US = 20000 };

int main(int argc, char **argv) {
  check_start(&argc, &argv);
  const int neighbour = (world_rank + 1) % world_size;
  static int mine[NUMBERS], theirs[NUMBERS];
  MPI_File file;
  MPI_File_open(MPI_COMM_WORLD, argv[1], MPI_MODE_CREATE | MPI_MODE_RDWR | MPI_MODE_DELETE_ON_CLOSE, MPI_INFO_NULL,
                &file);
  MPI_File_set_view(file, 0, MPI_INT, MPI_INT, "native", MPI_INFO_NULL);
  MPI_File_set_atomicity(file, 1);
  for (int round = 0; round < atoi(argv[2]); ++round) {
    for (int i = 0; i < NUMBERS; ++i) mine[i] = world_rank * NUMBERS + i + round;
    within(20, "round %d", round);
    MPI_Request requests[2];
    MPI_File_iwrite_at(file, (MPI_Offset)NUMBERS * world_rank, mine, NUMBERS, MPI_INT, &requests[0]);
    usleep(COMPUTE_US);
    int sum = 0;
    allreduce(&world_rank, &sum, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
    MPI_File_iread_at(file, (MPI_Offset)NUMBERS * neighbour, theirs, NUMBERS, MPI_INT, &requests[1]);
    MPI_Waitall(2, requests, MPI_STATUSES_IGNORE);
    int wrong = 0;
    for (int i = 0; i < NUMBERS; ++i) wrong += theirs[i] != neighbour * NUMBERS + i + round;
    CHECK(wrong == 0, "round %d: %d wrong numbers", round, wrong);
    MPI_Barrier(MPI_COMM_WORLD); /* nobody writes the next ones before all have read these */
  }
  MPI_File_close(&file);
  return check_finish();
}
