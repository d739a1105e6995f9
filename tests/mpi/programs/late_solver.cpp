// SPDX-License-Identifier: BSD-3-Clause
// Rank 1 computes for three seconds before an allreduce, in a function of a class in a namespace.
#include <mpi.h>

namespace physics {
struct Solver {
  double sum = 0;
  [[gnu::noinline]] void relax(double seconds) {
    const double until = MPI_Wtime() + seconds;
    while (MPI_Wtime() < until)
      for (int k = 0; k < 100000; ++k) sum += k % 7 * 1e-9;
  }
};
}  // namespace physics

int main(int argc, char** argv) {
  MPI_Init(&argc, &argv);
  int rank = 0;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  double mine = 1;
  double total = 0;
  MPI_Allreduce(&mine, &total, 1, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD);
  physics::Solver solver;
  if (rank == 1) solver.relax(3);
  MPI_Allreduce(&mine, &total, 1, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD);
  MPI_Finalize();
  return solver.sum < 0 ? 1 : 0;
}
