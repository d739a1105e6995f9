/* SPDX-License-Identifier: BSD-3-Clause
 *
 * The main thread leaves by pthread_exit() after MPI_Finalize. The process then ends with its last thread.
 */
#include <pthread.h>

#include "check.h"

int main(int argc, char **argv) {
  check_start(&argc, &argv);
  for (int k = 0; k < 10; ++k) {
    int sum = 0;
    allreduce(&world_rank, &sum, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
    CHECK(sum == world_size * (world_size - 1) / 2, "sum is %d", sum);
  }
  if (check_finish() != 0) return 1;
  pthread_exit(NULL);
}
