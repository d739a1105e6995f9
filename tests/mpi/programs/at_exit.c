/* SPDX-License-Identifier: BSD-3-Clause
 *
 * The last calls of this program come from a function that exit() calls: the objects of the thread are gone by then.
 */
#include <unistd.h>

#include "check.h"

enum { REQUESTS = 4, BLOCKS = 16 };

static void add(void) {
  int input[REQUESTS], sum[REQUESTS];
  MPI_Request requests[REQUESTS];
  for (int k = 0; k < REQUESTS; ++k) {
    input[k] = world_rank + k;
    MPI_Iallreduce(&input[k], &sum[k], 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD, &requests[k]);
  }
  MPI_Waitall(REQUESTS, requests, MPI_STATUSES_IGNORE);
  for (int k = 0; k < REQUESTS; ++k)
    CHECK(sum[k] == world_size * (world_size - 1) / 2 + world_size * k, "sum %d is %d", k, sum[k]);
  for (int count = 1; count <= 1000; count *= 10) {
    int *values = allocate(sizeof(int) * (size_t)count);
    for (int k = 0; k < count; ++k) values[k] = world_rank + k;
    allreduce(MPI_IN_PLACE, values, count, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
    for (int k = 0; k < count; ++k)
      CHECK(values[k] == world_size * (world_size - 1) / 2 + world_size * k, "count %d, element %d", count, k);
    free(values);
  }
}

/* Blocks of the sizes that were freed when the thread's objects went: who still writes there has spoilt them. */
static void use_memory(void) {
  void *blocks[BLOCKS][BLOCKS];
  for (int size = 0; size < BLOCKS; ++size)
    for (int k = 0; k < BLOCKS; ++k) blocks[size][k] = memset(allocate(8 + 16 * (size_t)size), 1, 8);
  for (int size = 0; size < BLOCKS; ++size)
    for (int k = 0; k < BLOCKS; ++k) free(blocks[size][k]);
}

static void last_calls(void) {
  add();
  use_memory();
  if (check_finish() != 0) _exit(1);
}

int main(int argc, char **argv) {
  check_start(&argc, &argv);
  add();
  return atexit(last_calls);
}
