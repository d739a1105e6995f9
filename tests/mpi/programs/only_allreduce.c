/* SPDX-License-Identifier: BSD-3-Clause
 *
 * only_allreduce BYTES COUNT LIMIT: rank 0 has a message of BYTES under way to rank 1 and calls nothing but MPI_Allreduce
 * of COUNT integers until rank 1 has it. It is an error if that takes more than LIMIT of them.
 *
 * Where the MPI moves a message only inside of its own functions, whoever serves the allreduces must give it a turn.
 */
#include "check.h"

int main(int argc, char **argv) {
  check_start(&argc, &argv);
  const size_t bytes = (size_t)atol(argv[1]);
  const int count = atoi(argv[2]);
  const long limit = atol(argv[3]);
  char *letter = allocate(bytes);
  memset(letter, 1 - world_rank, bytes);
  int *input = allocate(sizeof(int) * (size_t)count), *output = allocate(sizeof(int) * (size_t)count);
  memset(input, 0, sizeof(int) * (size_t)count);

  allreduce(input, output, count, MPI_INT, MPI_MAX, MPI_COMM_WORLD);
  MPI_Request request = MPI_REQUEST_NULL;
  MPI_Barrier(MPI_COMM_WORLD);
  if (world_rank == 0) MPI_Isend(letter, (int)bytes, MPI_BYTE, 1, 7, MPI_COMM_WORLD, &request);
  if (world_rank == 1) MPI_Irecv(letter, (int)bytes, MPI_BYTE, 0, 7, MPI_COMM_WORLD, &request);
  long calls = 0;
  do {
    if (world_rank == 1) MPI_Test(&request, &input[0], MPI_STATUS_IGNORE);
    allreduce(input, output, count, MPI_INT, MPI_MAX, MPI_COMM_WORLD);
  } while (++calls < limit && output[0] == 0);
  CHECK(output[0] != 0, "%zu bytes are not delivered after %ld allreduces", bytes, calls);
  MPI_Wait(&request, MPI_STATUS_IGNORE);

  size_t wrong = 0;
  for (size_t i = 0; world_rank < 2 && i < bytes; ++i) wrong += letter[i] != 1;
  CHECK(wrong == 0, "%zu wrong bytes", wrong);
  if (world_rank == 0) printf("delivered after %ld allreduces\n", calls);
  free(letter);
  free(input);
  free(output);
  return check_finish();
}
