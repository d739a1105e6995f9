/* SPDX-License-Identifier: BSD-3-Clause
 *
 * A program traps every inexact result, as one built with -ffpe-trap=inexact does, and adds integers. offbeat
 * computes costs, times and trials meanwhile. No rank may trap or see them, and each keeps its rounding mode.
 */
#define _GNU_SOURCE
#include <fenv.h>
#include <unistd.h>

#include "check.h"

enum { longest = 1 << 16 };
static int input[longest], output[longest];

static void add(MPI_Comm communicator) {
  const int counts[] = {1, 300, longest};
  for (int c = 0; c < 3; ++c) {
    for (int k = 0; k < 40; ++k) {
      if (k == 20 && world_rank == 1) usleep(30000); /* so that the others wait, and sleep */
      for (int i = 0; i < counts[c]; ++i) input[i] = i + k;
      MPI_Allreduce(input, output, counts[c], MPI_INT, MPI_SUM, communicator);
      const int last = counts[c] - 1;
      CHECK(output[last] == world_size * (last + k), "%d integers: %d", counts[c], output[last]);
    }
    MPI_Request request;
    MPI_Iallreduce(input, output, counts[c], MPI_INT, MPI_SUM, communicator, &request);
    MPI_Wait(&request, MPI_STATUS_IGNORE);
    for (int k = 0; k < 40; ++k) MPI_Bcast(output, counts[c], MPI_INT, k % world_size, communicator);
  }
}

int main(int argc, char **argv) {
  check_start(&argc, &argv);
  MPI_Comm copy;
  MPI_Comm_dup(MPI_COMM_WORLD, &copy);
  fesetround(world_rank % 2 == 0 ? FE_UPWARD : FE_DOWNWARD);
  feclearexcept(FE_ALL_EXCEPT);
  feenableexcept(FE_INEXACT | FE_INVALID | FE_DIVBYZERO | FE_OVERFLOW | FE_UNDERFLOW);
  add(MPI_COMM_WORLD);
  add(copy);
  CHECK(fetestexcept(FE_ALL_EXCEPT) == 0, "exceptions %x are raised", fetestexcept(FE_ALL_EXCEPT));
  CHECK(fegetround() == (world_rank % 2 == 0 ? FE_UPWARD : FE_DOWNWARD), "rounding mode %x", fegetround());
  fedisableexcept(FE_ALL_EXCEPT);
  MPI_Comm_free(&copy);
  return check_finish();
}
