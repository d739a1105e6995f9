/* SPDX-License-Identifier: BSD-3-Clause
 *
 * MPI_THREAD_MULTIPLE: four threads, each on a communicator of its own, call at once and keep their own account:
 *
 *   threads_stamped FOLDER
 *
 * writes FOLDER/rank-R with one line for each call: thread, communicator of the thread, number of the call on it,
 * collective, elements, and CLOCK_MONOTONIC before the call and behind it (behind its completion, where it does
 * not block). Elements tell the threads apart.
 */
#include <pthread.h>
#include <time.h>

#include "check.h"

enum { THREADS = 4, ROUNDS = 40, EVERY_COPY = 10, MOST_CALLS = 4 * ROUNDS, MOST_ELEMENTS = 8192 };

struct line {
  int communicator, number, elements;
  const char *collective;
  long long before, behind;
};

struct thread {
  MPI_Comm communicator;
  int id, copies;
  long wrong;
  int used;
  struct line lines[MOST_CALLS];
};

static long long now_ns(void) {
  struct timespec time;
  clock_gettime(CLOCK_MONOTONIC, &time);
  return time.tv_sec * 1000000000LL + time.tv_nsec;
}

static void note(struct thread *thread, int communicator, int number, const char *collective, int elements,
                 long long before) {
  thread->lines[thread->used++] = (struct line){communicator, number, elements, collective, before, now_ns()};
}

/* A handle that another thread may have had a moment ago. */
static void call_on_copy(struct thread *thread) {
  MPI_Comm copy;
  MPI_Comm_dup(thread->communicator, &copy);
  const int communicator = ++thread->copies;
  const long long before = now_ns();
  int elements = 100 * (thread->id + 1) + communicator, buffer[1000] = {0};
  MPI_Bcast(buffer, elements, MPI_INT, 0, copy);
  note(thread, communicator, 0, "bcast", elements, before);
  MPI_Comm_free(&copy);
}

static void *work(void *argument) {
  struct thread *thread = argument;
  int *input = allocate(MOST_ELEMENTS * sizeof *input), *output = allocate(MOST_ELEMENTS * sizeof *output);
  for (int round = 0, number = 0; round < ROUNDS; ++round) {
    const int elements = 1000 * (thread->id + 1) + round;
    for (int i = 0; i < elements; ++i) input[i] = i + round;
    long long before = now_ns();
    MPI_Allreduce(input, output, elements, MPI_INT, MPI_SUM, thread->communicator);
    note(thread, 0, number++, "allreduce", elements, before);
    for (int i = 0; i < elements; ++i) thread->wrong += output[i] != world_size * (i + round);

    MPI_Request request;
    before = now_ns();
    MPI_Ibcast(output, elements, MPI_INT, 0, thread->communicator, &request);
    MPI_Wait(&request, MPI_STATUS_IGNORE);
    note(thread, 0, number++, "bcast", elements, before);
    if (round % EVERY_COPY == thread->id) call_on_copy(thread);
  }
  free(input);
  free(output);
  return NULL;
}

static void write_lines(const char *folder, const struct thread *threads) {
  char path[4096];
  snprintf(path, sizeof path, "%s/rank-%d", folder, world_rank);
  FILE *file = fopen(path, "w");
  CHECK(file != NULL, "cannot write %s", path);
  for (int t = 0; file != NULL && t < THREADS; ++t)
    for (int i = 0; i < threads[t].used; ++i) {
      const struct line *line = &threads[t].lines[i];
      fprintf(file, "%d %d %d %s %d %lld %lld\n", t, line->communicator, line->number, line->collective,
              line->elements, line->before, line->behind);
    }
  if (file != NULL) fclose(file);
}

int main(int argc, char **argv) {
  static struct thread threads[THREADS];
  pthread_t handles[THREADS];
  int provided;
  MPI_Init_thread(&argc, &argv, MPI_THREAD_MULTIPLE, &provided);
  MPI_Comm_rank(MPI_COMM_WORLD, &world_rank);
  MPI_Comm_size(MPI_COMM_WORLD, &world_size);
  CHECK(provided == MPI_THREAD_MULTIPLE, "MPI_THREAD_MULTIPLE is not provided, only %d", provided);
  for (int t = 0; t < THREADS; ++t) {
    threads[t].id = t;
    MPI_Comm_dup(MPI_COMM_WORLD, &threads[t].communicator);
  }
  for (int t = 0; t < THREADS; ++t) pthread_create(&handles[t], NULL, work, &threads[t]);
  for (int t = 0; t < THREADS; ++t) {
    pthread_join(handles[t], NULL);
    CHECK(threads[t].wrong == 0, "thread %d: %ld wrong elements", t, threads[t].wrong);
    MPI_Comm_free(&threads[t].communicator);
  }
  write_lines(argv[1], threads);
  return check_finish();
}
