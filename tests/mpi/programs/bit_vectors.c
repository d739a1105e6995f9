/* SPDX-License-Identifier: BSD-3-Clause
 *
 *     bit_vectors [DRIVER]
 *
 * Vectors whose bits the tracer counts, and similar ones whose bits it does not count. With a driver
 * (tests/support/stub_gpu.cpp), a vector of rank 0 is in memory that the CPU cannot read.
 */
#include <stdint.h>

#include "check.h"

#include "../../support/stub_gpu.h"

enum { WORDS = 128 };

static uint64_t words[WORDS + 1], result[WORDS + 1];

static void fill(void) {
  for (int i = 0; i <= WORDS; ++i) words[i] = world_rank == 0 ? 0x1f : 0x7;
}

static void in_place(int count, MPI_Datatype type, MPI_Op op) {
  fill();
  allreduce(MPI_IN_PLACE, words, count, type, op, MPI_COMM_WORLD);
}

static void on_a_gpu(const char *driver) {
  const struct stub_gpu gpu = stub_load(driver);
  uint64_t *const there = gpu.allocate(sizeof *there, STUB_DEVICE);
  fill();
  if (world_rank == 0) gpu.write(there, words, sizeof *there);
  allreduce(MPI_IN_PLACE, world_rank == 0 ? there : words, 1, MPI_LONG_LONG_INT, MPI_BAND, MPI_COMM_WORLD);
  if (world_rank == 0) gpu.read(words, there, sizeof *there);
  CHECK(words[0] == 7, "memory of a GPU");
  gpu.release(there);
}

int main(int argc, char **argv) {
  check_start(&argc, &argv);
  if (argc > 1) {
    on_a_gpu(argv[1]);
    return check_finish();
  }
  in_place(1, MPI_LONG_LONG_INT, MPI_BAND);
  CHECK(words[0] == 7 && words[1] == (world_rank == 0 ? 0x1f : 0x7), "one word");
  in_place(WORDS, MPI_UINT64_T, MPI_BAND);
  CHECK(words[WORDS - 1] == 7, "many words");
  in_place(WORDS + 1, MPI_LONG_LONG_INT, MPI_BAND); /* too long */
  in_place(1, MPI_LONG_LONG_INT, MPI_BOR);
  CHECK(words[0] == 0x1f, "or");
  in_place(1, MPI_LONG_LONG_INT, MPI_LAND);
  in_place(2, MPI_INT, MPI_BAND); /* words of 4 bytes */
  in_place(8, MPI_BYTE, MPI_BAND);
  fill();
  allreduce(words, result, 1, MPI_LONG_LONG_INT, MPI_BAND, MPI_COMM_WORLD); /* not in place */
  CHECK(result[0] == 7, "separate buffers");
  return check_finish();
}
