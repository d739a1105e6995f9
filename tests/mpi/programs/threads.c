/* SPDX-License-Identifier: BSD-3-Clause
 *
 * MPI_THREAD_MULTIPLE: four threads on four communicators at once, each making
 * its first calls (where a library sets up) and further ones without waiting
 * for the others.
 *
 *   --rounds N   calls per thread and length
 */
#include <pthread.h>

#include "check.h"

enum { THREADS = 4, LARGEST = 5000 };

static long rounds;

struct job {
  MPI_Comm communicator;
  int number;
  long calls, wrong;
};

static void *work(void *argument) {
  struct job *job = argument;
  int rank, size;
  MPI_Comm_rank(job->communicator, &rank);
  MPI_Comm_size(job->communicator, &size);
  long *input = allocate(sizeof(long) * LARGEST), *output = allocate(sizeof(long) * LARGEST);
  const int counts[] = {1, 100, LARGEST};
  for (long round = 0; round < rounds; ++round)
    for (int c = 0; c < 3; ++c) {
      for (int i = 0; i < counts[c]; ++i) input[i] = (rank + 1L) * (i + 1) + round * job->number;
      MPI_Allreduce(input, output, counts[c], MPI_LONG, MPI_SUM, job->communicator);
      ++job->calls;
      for (int i = 0; i < counts[c]; ++i) {
        long expected = (long)size * (size + 1) / 2 * (i + 1) + size * round * job->number;
        job->wrong += output[i] != expected;
      }
    }
  free(input);
  free(output);
  return NULL;
}

int main(int argc, char **argv) {
  int provided;
  MPI_Init_thread(&argc, &argv, MPI_THREAD_MULTIPLE, &provided);
  MPI_Comm_rank(MPI_COMM_WORLD, &world_rank);
  MPI_Comm_size(MPI_COMM_WORLD, &world_size);
  rounds = option(argc, argv, "--rounds", 20);
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
    MPI_Comm_free(&jobs[t].communicator);
  }
  return check_finish();
}
