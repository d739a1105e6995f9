/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Each collective with calls of the lengths that the arguments name: of the vector, of a block, or of all
 * blocks where a call has a list of them. Lengths are multiples of 64 bytes.
 */
#include "check.h"

int main(int argc, char **argv) {
  check_start(&argc, &argv);
  for (int k = 1; k < argc; ++k) {
    const int bytes = atoi(argv[k]);
    const int count = bytes / (int)sizeof(int);
    const int share = count / world_size;
    int *counts = allocate((size_t)world_size * sizeof *counts);
    int *begins = allocate((size_t)world_size * sizeof *begins);
    int *bytes_each = allocate((size_t)world_size * sizeof *bytes_each);
    for (int r = 0; r < world_size; ++r) {
      counts[r] = share + (r == 0 ? count - share * world_size : 0);
      begins[r] = r == 0 ? 0 : begins[r - 1] + counts[r - 1];
      bytes_each[r] = bytes;
    }
    const size_t all = (size_t)bytes * (size_t)world_size;
    int *input = allocate(all), *output = allocate(all);
    for (size_t i = 0; i < all / sizeof *input; ++i) input[i] = world_rank + 1;
    within(60, "%d bytes", bytes);
    MPI_Barrier(MPI_COMM_WORLD);
    allreduce(input, output, count, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
    CHECK(output[count - 1] == world_size * (world_size + 1) / 2, "allreduce: %d", output[count - 1]);
    MPI_Reduce(input, output, count, MPI_INT, MPI_SUM, 0, MPI_COMM_WORLD);
    MPI_Bcast(output, bytes, MPI_BYTE, 0, MPI_COMM_WORLD);
    CHECK(output[count - 1] == world_size * (world_size + 1) / 2, "reduce, bcast: %d", output[count - 1]);
    MPI_Reduce_scatter_block(input, output, count, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
    CHECK(output[count - 1] == world_size * (world_size + 1) / 2, "reduce_scatter_block: %d", output[count - 1]);
    MPI_Reduce_scatter(input, output, counts, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
    CHECK(output[0] == world_size * (world_size + 1) / 2, "reduce_scatter: %d", output[0]);
    MPI_Allgather(input, bytes, MPI_BYTE, output, bytes, MPI_BYTE, MPI_COMM_WORLD);
    CHECK(output[all / sizeof *output - 1] == world_size, "allgather: %d", output[all / sizeof *output - 1]);
    MPI_Allgatherv(input, counts[world_rank], MPI_INT, output, counts, begins, MPI_INT, MPI_COMM_WORLD);
    CHECK(output[count - 1] == world_size, "allgatherv: %d", output[count - 1]);
    MPI_Alltoall(input, bytes, MPI_BYTE, output, bytes, MPI_BYTE, MPI_COMM_WORLD);
    CHECK(output[0] == 1, "alltoall: %d", output[0]);
    for (int r = 0; r < world_size; ++r) begins[r] = r * bytes;
    MPI_Alltoallv(input, bytes_each, begins, MPI_BYTE, output, bytes_each, begins, MPI_BYTE, MPI_COMM_WORLD);
    CHECK(output[0] == 1, "alltoallv: %d", output[0]);
    MPI_Scatter(input, bytes, MPI_BYTE, output, bytes, MPI_BYTE, 0, MPI_COMM_WORLD);
    CHECK(output[0] == 1, "scatter: %d", output[0]);
    MPI_Gather(input, bytes, MPI_BYTE, output, bytes, MPI_BYTE, 0, MPI_COMM_WORLD);
    CHECK(world_rank != 0 || output[all / sizeof *output - 1] == world_size, "gather: %d", output[0]);
    free(counts);
    free(begins);
    free(bytes_each);
    free(input);
    free(output);
  }
  return check_finish();
}
