// SPDX-License-Identifier: BSD-3-Clause
// MPI_Allreduce of one double on two ranks, as often as the argument says. Rank 1 comes last to each call.
#include <mpi.h>
#include <stdlib.h>
#include <unistd.h>

int main(int argc, char** argv) {
  MPI_Init(&argc, &argv);
  int rank;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  const int calls = argc > 1 ? atoi(argv[1]) : 1;
  for (int call = 0; call < calls; ++call) {
    const double mine = rank + call;
    double sum = 0;
    if (rank == 1) usleep(100 * (call % 4));
    MPI_Allreduce(&mine, &sum, 1, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD);
    if (sum != 2 * call + 1) MPI_Abort(MPI_COMM_WORLD, 1);
  }
  MPI_Finalize();
  return 0;
}
