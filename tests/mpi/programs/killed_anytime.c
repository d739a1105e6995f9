/* SPDX-License-Identifier: BSD-3-Clause
 *
 * killed_anytime RANK MICROSECONDS: the kernel kills this rank so long after MPI_Init, wherever it is. Until then all
 * ranks make communicators, sum over them and free them.
 */
#include "kill.h"

int main(int argc, char **argv) {
  check_start(&argc, &argv);
  const int victim = atoi(argv[1]);
  const long microseconds = atol(argv[2]);
  static const int counts[] = {1, 400, 5000, 200000};
  double *input = allocate(sizeof(double) * 200000), *output = allocate(sizeof(double) * 200000);
  for (int i = 0; i < 200000; ++i) input[i] = i;
  MPI_Barrier(MPI_COMM_WORLD);
  if (world_rank == victim) be_killed_after(microseconds);
  for (;;) {
    MPI_Comm communicator;
    MPI_Comm_dup(MPI_COMM_WORLD, &communicator);
    for (int k = 0; k < 24; ++k) allreduce(input, output, counts[k % 4], MPI_DOUBLE, MPI_SUM, communicator);
    MPI_Comm_free(&communicator);
  }
}
