/* SPDX-License-Identifier: BSD-3-Clause
 *
 * first_call: MPI_Comm_dup, no, one or two MPI_Allreduces of one double, and MPI_Comm_free; microseconds for all of
 * these together, median of 15 times 200.
 */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>

enum { REPEATS = 15, WARM_UP = 2, COMMUNICATORS = 200, MOST_CALLS = 2 };

static int compare(const void* left, const void* right) {
  const double a = *(const double*)left, b = *(const double*)right;
  return (a > b) - (a < b);
}

static void come_and_go(int calls) {
  MPI_Comm copy;
  MPI_Comm_dup(MPI_COMM_WORLD, &copy);
  const double input = 1;
  double output;
  for (int k = 0; k < calls; ++k) MPI_Allreduce(&input, &output, 1, MPI_DOUBLE, MPI_SUM, copy);
  MPI_Comm_free(&copy);
}

int main(int argc, char** argv) {
  MPI_Init(&argc, &argv);
  int rank;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  for (int calls = 0; calls <= MOST_CALLS; ++calls) {
    double us[REPEATS];
    for (int repeat = -WARM_UP; repeat < REPEATS; ++repeat) {
      MPI_Barrier(MPI_COMM_WORLD);
      const double start = MPI_Wtime();
      for (int k = 0; k < COMMUNICATORS; ++k) come_and_go(calls);
      if (repeat >= 0) us[repeat] = (MPI_Wtime() - start) / COMMUNICATORS * 1e6;
    }
    qsort(us, REPEATS, sizeof *us, compare);
    if (rank == 0) printf("%d calls: %.2f us\n", calls, us[REPEATS / 2]);
  }
  MPI_Finalize();
  return 0;
}
