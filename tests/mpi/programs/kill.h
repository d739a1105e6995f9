/* SPDX-License-Identifier: BSD-3-Clause
 *
 * The kernel kills this process after that many microseconds, wherever it is then.
 */
#ifndef KILL_H
#define KILL_H

#include <signal.h>
#include <time.h>

#include "check.h"

static void be_killed_after(long microseconds) {
  struct sigevent killing;
  memset(&killing, 0, sizeof killing);
  killing.sigev_notify = SIGEV_SIGNAL;
  killing.sigev_signo = SIGKILL;
  struct itimerspec once;
  memset(&once, 0, sizeof once);
  once.it_value.tv_sec = microseconds / 1000000;
  once.it_value.tv_nsec = microseconds % 1000000 * 1000 + 1;
  timer_t timer;
  if (timer_create(CLOCK_MONOTONIC, &killing, &timer) != 0 || timer_settime(timer, 0, &once, NULL) != 0) {
    perror("FAIL: timer");
    MPI_Abort(MPI_COMM_WORLD, 3);
  }
}

#endif
