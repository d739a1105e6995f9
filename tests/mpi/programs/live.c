/* SPDX-License-Identifier: BSD-3-Clause
 *
 * live KIND SECONDS: allreduces for some seconds, and what KIND says:
 *   balanced    nothing
 *   late        rank 1 computes for 5 ms before each
 *   begun       likewise, by MPI_Iallreduce and MPI_Wait
 *   hang        rank 1 computes for most of the time before the last
 *   asleep      likewise, and sleeps instead
 *   receives    likewise, and waits for a message of rank 2 that comes late
 *   handled     likewise, and has handlers for all signals that programs may use
 *   busy        likewise, with threads that allocate, children, and a timer's signals
 */
#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "check.h"

static double now(void) {
  struct timespec time;
  clock_gettime(CLOCK_MONOTONIC, &time);
  return (double)time.tv_sec + 1e-9 * (double)time.tv_nsec;
}

static volatile double sink;
static atomic_int is_over;
static atomic_int signals;

__attribute__((noinline)) static void solve(double seconds) {
  const double until = now() + seconds;
  while (now() < until)
    for (int k = 0; k < 1000; ++k) sink += k; /* the line of solve() */
}

static void on_signal(int number) {
  (void)number;
  atomic_fetch_add(&signals, 1);
}

static void *allocate_on(void *nothing) {
  while (!atomic_load(&is_over)) {
    void *volatile piece = malloc(64 + (size_t)(now() * 1e6) % 100000);
    free(piece);
  }
  return nothing;
}

static void keep_busy(double seconds) {
  pthread_t threads[2];
  for (int k = 0; k < 2; ++k) pthread_create(&threads[k], NULL, allocate_on, NULL);
  signal(SIGALRM, on_signal);
  const struct itimerval often = {{0, 2000}, {0, 2000}};
  setitimer(ITIMER_REAL, &often, NULL);
  const double until = now() + seconds;
  while (now() < until) {
    solve(0.05);
    void *volatile piece = malloc(1 << 20);
    free(piece);
    const pid_t child = fork();
    if (child == 0) _exit(3);
    int status = 0;
    while (waitpid(child, &status, 0) < 0) CHECK(errno == EINTR, "waitpid: %d", errno);
    CHECK(WEXITSTATUS(status) == 3, "a child ended with %d", status);
  }
  const struct itimerval never = {{0, 0}, {0, 0}};
  setitimer(ITIMER_REAL, &never, NULL);
  atomic_store(&is_over, 1);
  for (int k = 0; k < 2; ++k) pthread_join(threads[k], NULL);
}

static void be_late(const char *kind, double seconds) {
  if (strcmp(kind, "hang") == 0) solve(seconds);
  if (strcmp(kind, "busy") == 0) keep_busy(seconds);
  if (strcmp(kind, "asleep") == 0) {
    struct timespec time = {(time_t)seconds, 0};
    CHECK(nanosleep(&time, NULL) == 0, "the sleep ended early");
  }
  if (strcmp(kind, "receives") == 0) {
    int number = 0;
    MPI_Recv(&number, 1, MPI_INT, 2, 5, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    CHECK(number == 7, "received %d", number);
  }
  if (strcmp(kind, "handled") == 0) {
    for (int number = SIGRTMIN; number <= SIGRTMAX; ++number) signal(number, on_signal);
    solve(seconds);
    CHECK(atomic_load(&signals) == 0, "%d signals came", atomic_load(&signals));
  }
}

/* The first call blocks: ranks agree in it that offbeat serves the others. */
static void sum_of(const char *kind, const int *mine, int *sum) {
  if (strcmp(kind, "begun") != 0 || check_calls == 0) {
    allreduce(mine, sum, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
    return;
  }
  ++check_calls;
  MPI_Request request;
  MPI_Iallreduce(mine, sum, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD, &request);
  MPI_Wait(&request, MPI_STATUS_IGNORE);
}

int main(int argc, char **argv) {
  check_start(&argc, &argv);
  const char *kind = argv[1];
  const double seconds = atof(argv[2]);
  const int is_late = strcmp(kind, "late") == 0 || strcmp(kind, "begun") == 0;
  const int is_steady = strcmp(kind, "balanced") == 0 || is_late;
  const double until = now() + (is_steady ? seconds : 0.2);
  for (int goes_on = 1; goes_on;) {
    int mine = world_rank == 0 && now() < until;
    if (world_rank == 1 && is_late) solve(0.005);
    sum_of(kind, &mine, &goes_on);
  }
  if (world_rank == 1 && !is_steady) be_late(kind, seconds);
  if (strcmp(kind, "receives") == 0 && world_rank == 2) {
    solve(seconds);
    const int number = 7;
    MPI_Send(&number, 1, MPI_INT, 1, 5, MPI_COMM_WORLD);
  }
  int mine = 1, sum = 0;
  allreduce(&mine, &sum, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
  CHECK(sum == world_size, "the sum is %d", sum);
  return check_finish();
}
