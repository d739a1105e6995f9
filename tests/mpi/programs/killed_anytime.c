/* SPDX-License-Identifier: BSD-3-Clause
 *
 * killed_anytime RANK MICROSECONDS: the kernel kills this rank so long after MPI_Init, wherever it is. Until then all
 * ranks make communicators, sum over them and free them.
 */
#include <signal.h>
#include <time.h>

#include "check.h"

int main(int argc, char **argv) {
  check_start(&argc, &argv);
  const int victim = atoi(argv[1]);
  const long microseconds = atol(argv[2]);
  static const int counts[] = {1, 400, 5000, 200000};
  double *input = allocate(sizeof(double) * 200000), *output = allocate(sizeof(double) * 200000);
  for (int i = 0; i < 200000; ++i) input[i] = i;
  MPI_Barrier(MPI_COMM_WORLD);
  if (world_rank == victim) {
    struct sigevent killing = {.sigev_notify = SIGEV_SIGNAL, .sigev_signo = SIGKILL};
    const struct itimerspec once = {.it_value = {microseconds / 1000000, microseconds % 1000000 * 1000 + 1}};
    timer_t timer;
    if (timer_create(CLOCK_MONOTONIC, &killing, &timer) != 0 || timer_settime(timer, 0, &once, NULL) != 0) {
      perror("FAIL: timer");
      MPI_Abort(MPI_COMM_WORLD, 3);
    }
  }
  for (;;) {
    MPI_Comm communicator;
    MPI_Comm_dup(MPI_COMM_WORLD, &communicator);
    for (int k = 0; k < 24; ++k) allreduce(input, output, counts[k % 4], MPI_DOUBLE, MPI_SUM, communicator);
    MPI_Comm_free(&communicator);
  }
}
