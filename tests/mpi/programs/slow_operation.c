/* SPDX-License-Identifier: BSD-3-Clause
 *
 * slow_operation MILLISECONDS: an allreduce of 1 MiB by an operation that takes so long on odd ranks, which come
 * last. Where these do the work, even ranks wait for them again and again, but never for long.
 */
#include <unistd.h>

#include "check.h"

enum { COUNT = 1 << 18 };

static useconds_t pause_us;

static void add_slowly(void *input, void *output, int *count, MPI_Datatype *type) {
  (void)type;
  if (world_rank % 2 == 1) usleep(pause_us);
  for (int i = 0; i < *count; ++i) ((int *)output)[i] += ((int *)input)[i];
}

int main(int argc, char **argv) {
  check_start(&argc, &argv);
  pause_us = (useconds_t)atoi(argv[1]) * 1000;
  MPI_Op op;
  MPI_Op_create(add_slowly, 1, &op);
  int *input = allocate(sizeof(int) * COUNT), *sum = allocate(sizeof(int) * COUNT);
  for (int i = 0; i < COUNT; ++i) input[i] = i + world_rank;
  allreduce(input, sum, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
  if (world_rank % 2 == 1) usleep(200000);
  allreduce(input, sum, COUNT, MPI_INT, op, MPI_COMM_WORLD);
  int wrong = 0;
  for (int i = 0; i < COUNT; ++i) wrong += sum[i] != world_size * i + world_size * (world_size - 1) / 2;
  CHECK(wrong == 0, "%d wrong elements", wrong);
  MPI_Op_free(&op);
  free(input);
  free(sum);
  return check_finish();
}
