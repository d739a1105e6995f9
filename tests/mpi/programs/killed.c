/* SPDX-License-Identifier: BSD-3-Clause
 *
 * killed [SECONDS]: the last rank dies of SIGKILL between two allreduces, the others wait in theirs. The launcher must
 * end the job; a library must neither hold it up nor leave anything in /dev/shm. For launchers that do not, the others
 * end themselves after SECONDS.
 */
#include <signal.h>
#include <unistd.h>

#include "check.h"

int main(int argc, char **argv) {
  check_start(&argc, &argv);
  double input[1000] = {0}, output[1000];
  for (int i = 0; i < 10; ++i) allreduce(input, output, i % 2 ? 1000 : 1, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD);
  if (world_rank == 0) {
    printf("ten calls done\n");
    fflush(stdout);
  }
  MPI_Barrier(MPI_COMM_WORLD); /* the line is out before anybody dies */
  usleep(100000);
  if (world_rank == world_size - 1) raise(SIGKILL);
  if (argc > 1) alarm((unsigned)atoi(argv[1]));
  for (;;) allreduce(input, output, 1000, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD);
}
