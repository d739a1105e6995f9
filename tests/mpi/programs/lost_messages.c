/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Four threads of each rank exchange short messages at once, each thread with tags of its own. Open MPI 6.0
 * (branch v6.0.x, November 2026) loses some if ranks share a node: mca_btl_sm_fbox_sendi() takes the sequence
 * number of a message after it has released the lock under which it took the place in the fast box. Two
 * threads may then get numbers in another order than places, and the receiver waits at the first place
 * forever.
 *
 *     mpirun -n 2 lost_messages                                    hangs, even without offbeat
 *     mpirun -n 2 -x OMPI_MCA_btl_sm_fbox_max=0 lost_messages      ends normally
 */
#include <pthread.h>

#include "check.h"

enum { THREADS = 4, AT_ONCE = 4, ROUNDS = 2000 };

static void* exchange(void* argument) {
  const int thread = (int)(long)argument;
  for (int round = 0; round < ROUNDS; ++round) {
    int in[AT_ONCE], out[AT_ONCE];
    MPI_Request requests[2 * AT_ONCE];
    for (int k = 0; k < AT_ONCE; ++k) {
      const int tag = thread * AT_ONCE + k;
      out[k] = round * AT_ONCE + k;
      MPI_Irecv(&in[k], 1, MPI_INT, world_size - 1 - world_rank, tag, MPI_COMM_WORLD, &requests[2 * k]);
      MPI_Isend(&out[k], 1, MPI_INT, world_size - 1 - world_rank, tag, MPI_COMM_WORLD, &requests[2 * k + 1]);
    }
    MPI_Waitall(2 * AT_ONCE, requests, MPI_STATUSES_IGNORE);
    if (memcmp(in, out, sizeof in) != 0) return argument;
  }
  return NULL;
}

int main(int argc, char** argv) {
  int provided;
  MPI_Init_thread(&argc, &argv, MPI_THREAD_MULTIPLE, &provided);
  MPI_Comm_rank(MPI_COMM_WORLD, &world_rank);
  MPI_Comm_size(MPI_COMM_WORLD, &world_size);
  within(60, "messages of %d threads", THREADS);
  pthread_t threads[THREADS];
  for (long t = 0; t < THREADS; ++t) pthread_create(&threads[t], NULL, exchange, (void*)(t + 1));
  for (int t = 0; t < THREADS; ++t) {
    void* failed;
    pthread_join(threads[t], &failed);
    CHECK(failed == NULL, "thread %d: wrong data", t);
  }
  return check_finish();
}
