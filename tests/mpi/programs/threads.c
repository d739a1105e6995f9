/* SPDX-License-Identifier: BSD-3-Clause
 *
 * MPI_THREAD_MULTIPLE: four threads on four communicators at once, each making
 * its first calls (where a library sets up) and further ones without waiting
 * for the others. Integers have to be right; doubles whose sum depends on the
 * order of additions have to be the same bits in every round and on every rank.
 *
 *   --rounds N   calls per thread, type and length
 *   --largest N  elements of the longest of three messages
 */
#include <pthread.h>

#include "check.h"

enum { THREADS = 4, LENGTHS = 3 };

static long rounds;
static int counts[LENGTHS] = {1, 100};

struct job {
  MPI_Comm communicator;
  int number;
  long calls, wrong, changed;
  double *sums[LENGTHS]; /* of the first round */
};

static void sum_integers(struct job *job, int count, long round, long *input, long *output) {
  int rank, size;
  MPI_Comm_rank(job->communicator, &rank);
  MPI_Comm_size(job->communicator, &size);
  for (int i = 0; i < count; ++i) input[i] = (rank + 1L) * (i + 1) + round * job->number;
  MPI_Allreduce(input, output, count, MPI_LONG, MPI_SUM, job->communicator);
  ++job->calls;
  for (int i = 0; i < count; ++i) {
    long expected = (long)size * (size + 1) / 2 * (i + 1) + size * round * job->number;
    job->wrong += output[i] != expected;
  }
}

static void sum_doubles(struct job *job, int length, double *input, double *output) {
  int rank;
  MPI_Comm_rank(job->communicator, &rank);
  for (int i = 0; i < counts[length]; ++i) input[i] = 1.0 / (3 + i + 7 * rank + 31 * job->number);
  MPI_Allreduce(input, output, counts[length], MPI_DOUBLE, MPI_SUM, job->communicator);
  ++job->calls;
  const size_t bytes = sizeof(double) * counts[length];
  if (job->sums[length] == NULL)
    job->sums[length] = memcpy(allocate(bytes), output, bytes);
  else
    job->changed += memcmp(job->sums[length], output, bytes) != 0;
}

static void *work(void *argument) {
  struct job *job = argument;
  const size_t bytes = sizeof(double) * counts[LENGTHS - 1];
  void *input = allocate(bytes), *output = allocate(bytes);
  for (long round = 0; round < rounds; ++round)
    for (int length = 0; length < LENGTHS; ++length) {
      sum_integers(job, counts[length], round, input, output);
      sum_doubles(job, length, input, output);
    }
  free(input);
  free(output);
  return NULL;
}

/* Rank 0's bits on every rank? */
static void compare(struct job *job) {
  for (int length = 0; length < LENGTHS; ++length) {
    const size_t bytes = sizeof(double) * counts[length];
    double *first = memcpy(allocate(bytes), job->sums[length], bytes);
    MPI_Bcast(first, counts[length], MPI_DOUBLE, 0, job->communicator);
    CHECK(memcmp(first, job->sums[length], bytes) == 0, "thread %d: other bits than rank 0 in %d sums",
          job->number, counts[length]);
    free(first);
    free(job->sums[length]);
  }
}

int main(int argc, char **argv) {
  int provided;
  MPI_Init_thread(&argc, &argv, MPI_THREAD_MULTIPLE, &provided);
  MPI_Comm_rank(MPI_COMM_WORLD, &world_rank);
  MPI_Comm_size(MPI_COMM_WORLD, &world_size);
  rounds = option(argc, argv, "--rounds", 20);
  counts[LENGTHS - 1] = (int)option(argc, argv, "--largest", 5000);
  CHECK(provided == MPI_THREAD_MULTIPLE, "MPI_THREAD_MULTIPLE is not provided, only %d", provided);

  struct job jobs[THREADS];
  pthread_t threads[THREADS];
  for (int t = 0; t < THREADS; ++t) {
    jobs[t] = (struct job){.number = t + 1};
    /* Every second communicator has the ranks reversed. */
    MPI_Comm_split(MPI_COMM_WORLD, 0, t % 2 ? -world_rank : world_rank, &jobs[t].communicator);
  }
  for (int t = 0; t < THREADS; ++t) pthread_create(&threads[t], NULL, work, &jobs[t]);
  for (int t = 0; t < THREADS; ++t) {
    pthread_join(threads[t], NULL);
    check_calls += jobs[t].calls;
    CHECK(jobs[t].wrong == 0, "thread %d: %ld wrong elements", t, jobs[t].wrong);
    CHECK(jobs[t].changed == 0, "thread %d: other bits in %ld calls", t, jobs[t].changed);
    compare(&jobs[t]);
    MPI_Comm_free(&jobs[t].communicator);
  }
  return check_finish();
}
