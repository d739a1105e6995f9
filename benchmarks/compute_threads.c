/* SPDX-License-Identifier: BSD-3-Clause
 *
 *     compute_threads THREADS STEPS
 *
 * A training step, as Horovod has it: THREADS threads of each rank compute while the main thread reduces in cycles,
 * a flag and then 64 KiB, ranks up to 2 ms apart. The step ends when both are done. Prints the milliseconds of a
 * step: the more of the cores the waiting main thread takes, the longer the others compute.
 *
 *     mpicc -O2 benchmarks/compute_threads.c -o compute_threads -lpthread
 *     mpirun -n 2 --bind-to core ./compute_threads 2 60
 */
#include <mpi.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

enum { cycles = 10, elements = 16384, over = 1 << 30 };
static const long operations = 8000000; /* of a rank in each step */

static atomic_int step, computed;
static int threads;
static volatile double kept;

static void *compute(void *unused) {
  for (int mine = 1;; ++mine) {
    while (atomic_load(&step) < mine) usleep(50);
    if (atomic_load(&step) == over) return unused;
    double value = 1;
    for (long k = 0; k < operations / threads; ++k) value = value * 1.0000001 + 1e-9;
    kept = value;
    atomic_fetch_add(&computed, 1);
  }
}

int main(int argc, char **argv) {
  int provided, rank;
  MPI_Init_thread(&argc, &argv, MPI_THREAD_FUNNELED, &provided);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  threads = argc > 2 ? atoi(argv[1]) : 1;
  const int steps = argc > 2 ? atoi(argv[2]) : 60;
  for (int k = 0; k < threads; ++k) {
    pthread_t thread;
    pthread_create(&thread, NULL, compute, NULL);
    pthread_detach(thread);
  }
  static float gradients[elements], sum[elements];
  srand((unsigned)rank + 1);
  MPI_Barrier(MPI_COMM_WORLD);
  const double start = MPI_Wtime();
  for (int now = 1; now <= steps; ++now) {
    atomic_store(&computed, 0);
    atomic_store(&step, now);
    for (int cycle = 0; cycle < cycles; ++cycle) {
      if (rand() % 2) usleep((useconds_t)(rand() % 2000));
      int mine = 1, all = 0;
      MPI_Allreduce(&mine, &all, 1, MPI_INT, MPI_MIN, MPI_COMM_WORLD);
      MPI_Allreduce(gradients, sum, elements, MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD);
    }
    while (atomic_load(&computed) < threads) usleep(50);
  }
  MPI_Barrier(MPI_COMM_WORLD);
  if (rank == 0) printf("%.1f ms a step\n", (MPI_Wtime() - start) / steps * 1e3);
  atomic_store(&step, over);
  MPI_Finalize();
  return 0;
}
