/* SPDX-License-Identifier: BSD-3-Clause
 *
 * The smallest program: the sum of rank + 1, once with one number and once with many.
 */
#include "check.h"

int main(int argc, char **argv) {
  check_start(&argc, &argv);
  const int counts[] = {1, 10000};
  for (int c = 0; c < 2; ++c) {
    double input[10000], output[10000];
    for (int i = 0; i < counts[c]; ++i) input[i] = world_rank + 1;
    allreduce(input, output, counts[c], MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD);
    int wrong = -1;
    for (int i = 0; i < counts[c]; ++i)
      if (output[i] != world_size * (world_size + 1) / 2) wrong = i;
    CHECK(wrong < 0, "count %d: element %d", counts[c], wrong);
  }
  return check_finish();
}
