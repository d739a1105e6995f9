// SPDX-License-Identifier: BSD-3-Clause
// The time of a non-blocking collective that is waited for at once.
//
//     mpicc -O2 benchmarks/non_blocking.c -o non_blocking
//     mpirun -n 2 --bind-to core non_blocking [BYTES]
//     offbeat run -n 2 --mpirun-args '--bind-to core' -- ./non_blocking [BYTES]
//
// Prints microseconds for a call and its MPI_Wait, back to back: the least of batches, on rank 0. BYTES are
// what a rank has for each other one, 8 if not given.
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { batches = 15, most_calls = 10000, bytes_of_a_batch = 1 << 26 };

static char* mine;
static char* theirs;
static int* counts;
static int* displacements;
static int bytes = 8;

static void begin_allreduce(MPI_Request* request) {
  MPI_Iallreduce(mine, theirs, bytes / 4, MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD, request);
}
static void begin_allgather(MPI_Request* request) {
  MPI_Iallgather(mine, bytes, MPI_BYTE, theirs, bytes, MPI_BYTE, MPI_COMM_WORLD, request);
}
static void begin_alltoall(MPI_Request* request) {
  MPI_Ialltoall(mine, bytes, MPI_BYTE, theirs, bytes, MPI_BYTE, MPI_COMM_WORLD, request);
}
static void begin_alltoallv(MPI_Request* request) {
  MPI_Ialltoallv(mine, counts, displacements, MPI_BYTE, theirs, counts, displacements, MPI_BYTE,
                 MPI_COMM_WORLD, request);
}
static void begin_barrier(MPI_Request* request) { MPI_Ibarrier(MPI_COMM_WORLD, request); }
static void begin_bcast(MPI_Request* request) {
  MPI_Ibcast(mine, bytes, MPI_BYTE, 0, MPI_COMM_WORLD, request);
}
static void begin_gather(MPI_Request* request) {
  MPI_Igather(mine, bytes, MPI_BYTE, theirs, bytes, MPI_BYTE, 0, MPI_COMM_WORLD, request);
}
static void begin_reduce(MPI_Request* request) {
  MPI_Ireduce(mine, theirs, bytes / 4, MPI_FLOAT, MPI_SUM, 0, MPI_COMM_WORLD, request);
}
static void begin_scatter(MPI_Request* request) {
  MPI_Iscatter(mine, bytes, MPI_BYTE, theirs, bytes, MPI_BYTE, 0, MPI_COMM_WORLD, request);
}

static const struct {
  const char* name;
  void (*begin)(MPI_Request* request);
} collectives[] = {{"allreduce", begin_allreduce},
                   {"allgather", begin_allgather},
                   {"alltoall", begin_alltoall},
                   {"alltoallv", begin_alltoallv},
                   {"barrier", begin_barrier},
                   {"bcast", begin_bcast},
                   {"gather", begin_gather},
                   {"reduce", begin_reduce},
                   {"scatter", begin_scatter}};

int main(int argc, char** argv) {
  MPI_Init(&argc, &argv);
  int rank, ranks;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &ranks);
  if (argc > 1) bytes = atoi(argv[1]);
  if (bytes <= 0) {
    if (rank == 0) fputs("non_blocking [BYTES]\n", stderr);
    MPI_Abort(MPI_COMM_WORLD, 2);
  }
  const size_t size = (size_t)ranks * (size_t)bytes;
  mine = malloc(size);
  theirs = malloc(size);
  memset(mine, 1, size);
  memset(theirs, 1, size);
  counts = malloc((size_t)ranks * sizeof *counts);
  displacements = malloc((size_t)ranks * sizeof *displacements);
  for (int to = 0; to < ranks; ++to) {
    counts[to] = bytes;
    displacements[to] = to * bytes;
  }
  const int fitting = bytes_of_a_batch / bytes;
  const int calls = fitting < most_calls ? fitting : most_calls;
  for (size_t k = 0; k < sizeof collectives / sizeof *collectives; ++k) {
    double least = 1e9;
    for (int batch = 0; batch < batches; ++batch) {
      MPI_Barrier(MPI_COMM_WORLD);
      const double begin = MPI_Wtime();
      for (int call = 0; call < calls; ++call) {
        MPI_Request request;
        collectives[k].begin(&request);
        MPI_Wait(&request, MPI_STATUS_IGNORE);
      }
      const double us = (MPI_Wtime() - begin) / calls * 1e6;
      if (us < least) least = us;
    }
    if (rank == 0) printf("%-10s %.3f\n", collectives[k].name, least);
  }
  free(mine);
  free(theirs);
  free(counts);
  free(displacements);
  MPI_Finalize();
  return 0;
}
