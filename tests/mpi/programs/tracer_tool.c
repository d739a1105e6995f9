/* SPDX-License-Identifier: BSD-3-Clause
 *
 * A tool as people link and preload them: it counts calls through the profiling interface and prints on rank 0
 *
 *     tool: 2 starts, 6 allreduces, 4 iallreduces, 2 communicators, 2 freed
 *
 * which are sums over all ranks. It communicates itself: a barrier in MPI_Init, a reduce in MPI_Finalize. Without its
 * MPI_Init it crashes at the first call. With BOTH_LEVELS it stands before PMPI_Init and PMPI_Finalize, too, and goes
 * on from there to the function behind its own, as Darshan does.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>

enum { STARTS, ALLREDUCES, IALLREDUCES, COMMUNICATORS, FREED, COUNTERS };
static long *counters;

static void start(void) {
  counters = calloc(COUNTERS, sizeof *counters);
  ++counters[STARTS];
  PMPI_Barrier(MPI_COMM_WORLD);
}

static void report(void) {
  long sums[COUNTERS];
  int rank;
  PMPI_Comm_rank(MPI_COMM_WORLD, &rank);
  PMPI_Reduce(counters, sums, COUNTERS, MPI_LONG, MPI_SUM, 0, MPI_COMM_WORLD);
  if (rank == 0)
    printf("tool: %ld starts, %ld allreduces, %ld iallreduces, %ld communicators, %ld freed\n", sums[STARTS],
           sums[ALLREDUCES], sums[IALLREDUCES], sums[COMMUNICATORS], sums[FREED]);
}

#ifdef BOTH_LEVELS
static void *next(const char *name) { return dlsym(RTLD_NEXT, name); }

int MPI_Init(int *argc, char ***argv) {
  int (*next_init)(int *, char ***) = next("PMPI_Init");
  const int code = next_init(argc, argv);
  start();
  return code;
}
int PMPI_Init(int *argc, char ***argv) { return MPI_Init(argc, argv); }

int MPI_Finalize(void) {
  int (*next_finalize)(void) = next("PMPI_Finalize");
  report();
  return next_finalize();
}
int PMPI_Finalize(void) { return MPI_Finalize(); }
#else
int MPI_Init(int *argc, char ***argv) {
  const int code = PMPI_Init(argc, argv);
  start();
  return code;
}

int MPI_Finalize(void) {
  report();
  return PMPI_Finalize();
}
#endif

int MPI_Allreduce(const void *input, void *output, int count, MPI_Datatype type, MPI_Op op, MPI_Comm communicator) {
  ++counters[ALLREDUCES];
  return PMPI_Allreduce(input, output, count, type, op, communicator);
}

int MPI_Iallreduce(const void *input, void *output, int count, MPI_Datatype type, MPI_Op op, MPI_Comm communicator,
                   MPI_Request *request) {
  ++counters[IALLREDUCES];
  return PMPI_Iallreduce(input, output, count, type, op, communicator, request);
}

int MPI_Cart_create(MPI_Comm communicator, int dimensions, const int sizes[], const int periodic[], int reorder,
                    MPI_Comm *made) {
  ++counters[COMMUNICATORS];
  return PMPI_Cart_create(communicator, dimensions, sizes, periodic, reorder, made);
}

int MPI_Comm_free(MPI_Comm *communicator) {
  ++counters[FREED];
  return PMPI_Comm_free(communicator);
}
