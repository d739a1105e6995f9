/* SPDX-License-Identifier: BSD-3-Clause
 *
 * progress COUNT: rank 0 waits in an allreduce of COUNT integers while rank 1 first has to move long messages with it.
 *
 * A long message needs the receiver, or the sender, to do its part inside some MPI call: a wait that gives the MPI no
 * turn is a deadlock here.
 */
#include <unistd.h>

#include "check.h"

enum { LONG = 1 << 20 };

int main(int argc, char **argv) {
  check_start(&argc, &argv);
  const int count = atoi(argv[1]);
  int *input = allocate(sizeof(int) * (size_t)count), *output = allocate(sizeof(int) * (size_t)count);
  int *letter = allocate(sizeof(int) * LONG), *answer = allocate(sizeof(int) * LONG);
  for (int i = 0; i < count; ++i) input[i] = i + world_rank;
  for (int i = 0; i < LONG; ++i) letter[i] = i * 3 + world_rank;
  for (int round = 0; round < 3; ++round) {
    MPI_Request requests[2];
    if (world_rank == 0) {
      MPI_Isend(letter, LONG, MPI_INT, 1, 0, MPI_COMM_WORLD, &requests[0]);
      MPI_Irecv(answer, LONG, MPI_INT, 1, 1, MPI_COMM_WORLD, &requests[1]);
    } else if (world_rank == 1) {
      usleep(20000); /* rank 0 is asleep by now, if it ever sleeps */
      MPI_Recv(answer, LONG, MPI_INT, 0, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
      MPI_Ssend(letter, LONG, MPI_INT, 0, 1, MPI_COMM_WORLD);
    }
    allreduce(input, output, count, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
    if (world_rank == 0) MPI_Waitall(2, requests, MPI_STATUSES_IGNORE);
    int wrong = 0;
    for (int i = 0; i < count; ++i) wrong += output[i] != world_size * i + world_size * (world_size - 1) / 2;
    for (int i = 0; world_rank < 2 && i < LONG; ++i) wrong += answer[i] != i * 3 + 1 - world_rank;
    CHECK(wrong == 0, "round %d: %d wrong elements", round, wrong);
  }
  free(input);
  free(output);
  free(letter);
  free(answer);
  return check_finish();
}
