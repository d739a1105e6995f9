/* SPDX-License-Identifier: BSD-3-Clause
 *
 * MPI_Allreduce_c, the form with an MPI_Count: for MPIs that have it (MPI 4).
 *
 *   --gigabytes 1   also a message of 2^31 + 16 bytes, in place: needs 4 GiB and more
 */
#include "check.h"

#if MPI_VERSION < 4
#error "this MPI has no MPI_Allreduce_c"
#endif

static void sum(MPI_Count count, int in_place) {
  int *input = allocate(sizeof(int) * (size_t)count), *output = allocate(sizeof(int) * (size_t)count);
  for (MPI_Count i = 0; i < count; ++i) input[i] = output[i] = (int)(i % 1000) + world_rank;
  ++check_calls;
  MPI_Allreduce_c(in_place ? MPI_IN_PLACE : input, output, count, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
  MPI_Count wrong = -1;
  for (MPI_Count i = 0; i < count; ++i)
    if (output[i] != (int)(i % 1000) * world_size + world_size * (world_size - 1) / 2) wrong = i;
  CHECK(wrong < 0, "count %lld%s: element %lld", (long long)count, in_place ? " in place" : "",
        (long long)wrong);
  free(input);
  free(output);
}

static void beyond_int(void) {
  size_t count = ((size_t)1 << 31) + 16;
  signed char *data = allocate(count);
  for (size_t i = 0; i < count; ++i) data[i] = (signed char)((i + (size_t)world_rank) % 7);
  ++check_calls;
  MPI_Allreduce_c(MPI_IN_PLACE, data, (MPI_Count)count, MPI_SIGNED_CHAR, MPI_MAX, MPI_COMM_WORLD);
  size_t wrong = count;
  for (size_t i = 0; i < count; ++i) {
    int expected = 0;
    for (int rank = 0; rank < world_size; ++rank) {
      int value = (int)((i + (size_t)rank) % 7);
      expected = value > expected ? value : expected;
    }
    if (data[i] != expected) wrong = i;
  }
  CHECK(wrong == count, "2^31 + 16 bytes: element %zu", wrong);
  free(data);
}

int main(int argc, char **argv) {
  check_start(&argc, &argv);
  const MPI_Count counts[] = {0, 1, world_size + 1, 1000};
  for (int c = 0; c < 4; ++c)
    for (int in_place = 0; in_place < 2; ++in_place) sum(counts[c], in_place);
  if (option(argc, argv, "--gigabytes", 0)) beyond_int();
  return check_finish();
}
