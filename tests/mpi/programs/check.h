/* SPDX-License-Identifier: BSD-3-Clause
 *
 * What the test programs share: they count the MPI_Allreduce calls they make
 * and the cases they check, print the first failures, and end with the line
 *
 *     ok: 120 cases, 260 calls
 *
 * on rank 0 (tests/mpi/harness.py compares `calls` with offbeat's report) or
 * with a nonzero exit status. They are ordinary MPI programs: nothing in them
 * knows about offbeat, and they pass on any MPI without it.
 */
#ifndef CHECK_H
#define CHECK_H

#include <mpi.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { SHOWN_FAILURES = 5 };

static int world_rank, world_size;
static long check_cases, check_calls, check_failures;

/* Count one case; where it does not hold, say so. */
#define CHECK(condition, ...) check_that((condition) ? 1 : 0, __VA_ARGS__)

__attribute__((format(printf, 2, 3), unused)) static void check_that(int holds, const char *message, ...) {
  ++check_cases;
  if (holds) return;
  if (++check_failures > SHOWN_FAILURES) return;
  va_list arguments;
  va_start(arguments, message);
  fprintf(stderr, "FAIL rank %d of %d: ", world_rank, world_size);
  vfprintf(stderr, message, arguments);
  fputc('\n', stderr);
  va_end(arguments);
}

static char check_doing[200];

/* Only what a signal handler may call. */
static inline void check_ended(int signal_number) {
  const char *end = signal_number == SIGALRM ? ": not finished\n" : ": crashed\n";
  char line[sizeof check_doing + 20];
  const size_t length = strlen(check_doing);
  memcpy(line, check_doing, length);
  memcpy(line + length, end, strlen(end));
  _exit(write(STDERR_FILENO, line, length + strlen(end)) < 0 ? 5 : 4);
}

/* What comes now and how long it may take. A rank that hangs or crashes in it says so and ends. */
__attribute__((format(printf, 2, 3))) static inline void within(unsigned seconds, const char *doing, ...) {
  const int signals[] = {SIGALRM, SIGSEGV, SIGBUS, SIGABRT};
  va_list arguments;
  va_start(arguments, doing);
  alarm(0);
  int length = snprintf(check_doing, sizeof check_doing, "FAIL rank %d of %d: ", world_rank, world_size);
  vsnprintf(check_doing + length, sizeof check_doing - (size_t)length, doing, arguments);
  va_end(arguments);
  for (size_t k = 0; k < sizeof signals / sizeof *signals; ++k) signal(signals[k], check_ended);
  alarm(seconds);
}

/* MPI_Allreduce, counted. */
static inline int allreduce(const void *input, void *output, int count, MPI_Datatype type, MPI_Op op,
                     MPI_Comm communicator) {
  ++check_calls;
  return MPI_Allreduce(input, output, count, type, op, communicator);
}

static inline void check_start(int *argc, char ***argv) {
  MPI_Init(argc, argv);
  MPI_Comm_rank(MPI_COMM_WORLD, &world_rank);
  MPI_Comm_size(MPI_COMM_WORLD, &world_size);
}

/* Like check_start(), for a program whose threads call MPI at once. */
static inline void check_start_with_threads(int *argc, char ***argv) {
  int provided;
  MPI_Init_thread(argc, argv, MPI_THREAD_MULTIPLE, &provided);
  MPI_Comm_rank(MPI_COMM_WORLD, &world_rank);
  MPI_Comm_size(MPI_COMM_WORLD, &world_size);
  if (provided == MPI_THREAD_MULTIPLE) return;
  fprintf(stderr, "FAIL: no MPI_THREAD_MULTIPLE\n");
  MPI_Abort(MPI_COMM_WORLD, 3);
}

/* Finalize, print the last line; the value for main to return. */
static inline int check_finish(void) {
  long failures = 0;
  MPI_Reduce(&check_failures, &failures, 1, MPI_LONG, MPI_SUM, 0, MPI_COMM_WORLD);
  if (world_rank == 0 && failures == 0)
    printf("ok: %ld cases, %ld calls\n", check_cases, check_calls);
  if (world_rank == 0 && failures != 0) fprintf(stderr, "%ld failures\n", failures);
  fflush(NULL);
  MPI_Finalize();
  return check_failures != 0;
}

/* The value after an option such as "--stride", or `otherwise`. */
static inline long option(int argc, char **argv, const char *name, long otherwise) {
  for (int i = 1; i + 1 < argc; ++i)
    if (strcmp(argv[i], name) == 0) return atol(argv[i + 1]);
  return otherwise;
}

static inline void *allocate(size_t bytes) {
  void *memory = malloc(bytes ? bytes : 1);
  if (memory == NULL) {
    fprintf(stderr, "FAIL: out of memory (%zu bytes)\n", bytes);
    MPI_Abort(MPI_COMM_WORLD, 3);
  }
  return memory;
}

#endif
