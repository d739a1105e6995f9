/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Tests user-defined operations whose function takes the vector for one object, whatever its length says. The
 * last int of each object becomes a maximum and the others a sum, which would be wrong if the vector came in
 * pieces. Many programs have such operations.
 */
#include "check.h"

static int object;             /* how many ints are one */
static long calls_of_function; /* and those with another length than a number of objects */
static long cut;

/* Adds up all ints but the last one, which becomes the maximum. */
static void combine(void *input, void *output, int *count, MPI_Datatype *type) {
  const int *a = input;
  int *b = output;
  (void)type;
  ++calls_of_function;
  if (*count % object != 0 || *count == 0) {
    ++cut;
    return;
  }
  for (int first = 0; first < *count; first += object, a += object, b += object) {
    for (int k = 0; k + 1 < object; ++k) b[k] += a[k];
    if (a[object - 1] > b[object - 1]) b[object - 1] = a[object - 1];
  }
}

static void fill(int *data, int ints) {
  for (int i = 0; i < ints; ++i) data[i] = i % object == object - 1 ? world_rank : world_rank + i % 1000;
}
static long wrong_in(const int *data, int ints) {
  long wrong = 0;
  for (int i = 0; i < ints; ++i) {
    const int sum = world_size * (world_size - 1) / 2 + world_size * (i % 1000);
    wrong += data[i] != (i % object == object - 1 ? world_size - 1 : sum);
  }
  return wrong;
}

static void whole_vector(int ints, MPI_Op op) {
  object = ints;
  int *input = allocate(sizeof(int) * (size_t)ints), *output = allocate(sizeof(int) * (size_t)ints);
  within(60, "an object of %d ints", ints);
  fill(input, ints);
  allreduce(input, output, ints, MPI_INT, op, MPI_COMM_WORLD);
  CHECK(wrong_in(output, ints) == 0, "allreduce of %d: %ld wrong", ints, wrong_in(output, ints));
  fill(output, ints);
  allreduce(MPI_IN_PLACE, output, ints, MPI_INT, op, MPI_COMM_WORLD);
  CHECK(wrong_in(output, ints) == 0, "allreduce of %d in place: %ld wrong", ints, wrong_in(output, ints));
  const int root = ints % world_size;
  MPI_Reduce(input, output, ints, MPI_INT, op, root, MPI_COMM_WORLD);
  CHECK(world_rank != root || wrong_in(output, ints) == 0, "reduce of %d: %ld wrong", ints, wrong_in(output, ints));
  free(input);
  free(output);
}

/* Each rank gets as many objects as it has blocks of them. */
static void block_for_each(int ints, MPI_Op op) {
  object = ints;
  within(60, "blocks of %d ints", ints);
  int *counts = allocate(sizeof(int) * (size_t)world_size), all = 0;
  for (int rank = 0; rank < world_size; ++rank) all += counts[rank] = (1 + rank % 2) * ints;
  int *input = allocate(sizeof(int) * (size_t)all), *output = allocate(sizeof(int) * (size_t)all);
  int *expected = allocate(sizeof(int) * (size_t)all);
  fill(input, all);
  int begin = 0;
  for (int rank = 0; rank < world_rank; ++rank) begin += counts[rank];
  MPI_Reduce_scatter(input, output, counts, MPI_INT, op, MPI_COMM_WORLD);
  memset(expected, 0, sizeof(int) * (size_t)all);
  memcpy(expected + begin, output, sizeof(int) * (size_t)counts[world_rank]);
  MPI_Allreduce(MPI_IN_PLACE, expected, all, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
  CHECK(wrong_in(expected, all) == 0, "reduce_scatter of %d: %ld wrong", ints, wrong_in(expected, all));
  MPI_Reduce_scatter_block(input, output, ints, MPI_INT, op, MPI_COMM_WORLD);
  MPI_Allgather(output, ints, MPI_INT, expected, ints, MPI_INT, MPI_COMM_WORLD);
  CHECK(wrong_in(expected, world_size * ints) == 0, "reduce_scatter_block of %d: %ld wrong", ints,
        wrong_in(expected, world_size * ints));
  free(counts);
  free(input);
  free(output);
  free(expected);
}

int main(int argc, char **argv) {
  check_start(&argc, &argv);
  MPI_Op op;
  MPI_Op_create(combine, 1, &op);
  const int lengths[] = {1, 2, 3, 100, 1000, 2048, 5000, 70000, 262144, 262145, 600000};
  for (size_t k = 0; k < sizeof lengths / sizeof *lengths; ++k) {
    whole_vector(lengths[k], op);
    if (lengths[k] <= 70000) block_for_each(lengths[k], op);
  }
  CHECK(cut == 0, "%ld of %ld calls of the function had no whole objects", cut, calls_of_function);
  MPI_Op_free(&op);
  return check_finish();
}
