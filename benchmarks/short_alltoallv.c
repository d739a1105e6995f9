// SPDX-License-Identifier: BSD-3-Clause
// A short alltoallv of many ranks: 8 bytes between every two ranks, or only between neighbours.
//
//     mpicc -O2 benchmarks/short_alltoallv.c -o short_alltoallv
//     mpirun -n 16 ./short_alltoallv all|neighbours [SECONDS]
//
// Prints microseconds for each call: of processor time, added up over all ranks, and of the clock. Where
// ranks share cores, the first one says what a call costs.
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>

static double seconds_of(struct timeval time) { return (double)time.tv_sec + 1e-6 * (double)time.tv_usec; }
static double processor_time(void) {
  struct rusage used;
  getrusage(RUSAGE_SELF, &used);
  return seconds_of(used.ru_utime) + seconds_of(used.ru_stime);
}

static int *counts, *places;
static char *given, *taken;
static double call_several(int calls) {
  MPI_Barrier(MPI_COMM_WORLD);
  const double begin = MPI_Wtime();
  for (int call = 0; call < calls; ++call)
    MPI_Alltoallv(given, counts, places, MPI_BYTE, taken, counts, places, MPI_BYTE, MPI_COMM_WORLD);
  return MPI_Wtime() - begin;
}

int main(int argc, char** argv) {
  MPI_Init(&argc, &argv);
  enum { bytes = 8, few = 10, most = 20000 };
  const int all = argc > 1 && strcmp(argv[1], "all") == 0;
  const double budget = argc > 2 ? atof(argv[2]) : 0.5;
  int rank, ranks;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &ranks);
  counts = calloc((size_t)ranks, sizeof(int));
  places = calloc((size_t)ranks, sizeof(int));
  given = calloc((size_t)ranks, bytes);
  taken = calloc((size_t)ranks, bytes);
  for (int other = 0; other < ranks; ++other) {
    const int is_neighbour = other == (rank + 1) % ranks || rank == (other + 1) % ranks;
    counts[other] = all || is_neighbour ? bytes : 0;
    places[other] = other * bytes;
  }
  call_several(few);
  int calls = (int)(budget / call_several(few) * few);
  calls = calls < 2 * few ? 2 * few : calls > most ? most : calls;
  MPI_Bcast(&calls, 1, MPI_INT, 0, MPI_COMM_WORLD);
  const double before = processor_time();
  const double time = call_several(calls);
  double used = processor_time() - before;
  MPI_Allreduce(MPI_IN_PLACE, &used, 1, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD);
  if (rank == 0)
    printf("%d ranks, %s: %.1f us of processor time, %.1f us\n", ranks, all ? "all" : "neighbours",
           used * 1e6 / calls, time * 1e6 / calls);
  MPI_Finalize();
}
