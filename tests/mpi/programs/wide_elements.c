/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Computes sums of one element of 4 KiB, of a type and an operation of the program's own.
 */
#include "check.h"

enum { WIDTH = 4096 };

static void add(void *from, void *to, int *length, MPI_Datatype *type) {
  (void)type;
  const unsigned char *a = from;
  unsigned char *b = to;
  for (long i = 0; i < (long)WIDTH * *length; ++i) b[i] = (unsigned char)(b[i] + a[i]);
}

int main(int argc, char **argv) {
  check_start(&argc, &argv);
  static unsigned char from[WIDTH], to[WIDTH];
  MPI_Datatype wide;
  MPI_Op op;
  MPI_Type_contiguous(WIDTH, MPI_BYTE, &wide);
  MPI_Type_commit(&wide);
  MPI_Op_create(add, 1, &op);
  memset(from, world_rank + 1, WIDTH);
  within(60, "wide elements");
  for (int k = 0; k < 3; ++k) {
    memset(to, 0, WIDTH);
    allreduce(from, to, 1, wide, op, MPI_COMM_WORLD);
    int wrong = 0;
    for (int i = 0; i < WIDTH; ++i) wrong += to[i] != world_size * (world_size + 1) / 2;
    CHECK(wrong == 0, "%d wrong bytes", wrong);
  }
  MPI_Op_free(&op);
  MPI_Type_free(&wide);
  return check_finish();
}
