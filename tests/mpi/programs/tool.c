/* SPDX-License-Identifier: BSD-3-Clause
 *
 * A tool that counts a program's calls with the profiling interface, as a library. It prints on rank 0
 *
 *     tool: init 1, allreduce 5, barrier 1, create 0, free 1, disconnect 1
 *
 * The counters exist from MPI_Init on: a tool whose MPI_Init is skipped crashes.
 */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>

struct counters {
  long init, allreduce, barrier, create, free, disconnect;
};
static struct counters *counters;

static void start(void) {
  counters = calloc(1, sizeof *counters);
  ++counters->init;
}

int MPI_Init(int *argc, char ***argv) {
  const int code = PMPI_Init(argc, argv);
  start();
  return code;
}

int MPI_Init_thread(int *argc, char ***argv, int required, int *provided) {
  const int code = PMPI_Init_thread(argc, argv, required, provided);
  start();
  return code;
}

int MPI_Allreduce(const void *input, void *output, int count, MPI_Datatype type, MPI_Op op,
                  MPI_Comm communicator) {
  ++counters->allreduce;
  return PMPI_Allreduce(input, output, count, type, op, communicator);
}

int MPI_Barrier(MPI_Comm communicator) {
  ++counters->barrier;
  return PMPI_Barrier(communicator);
}

int MPI_Comm_create(MPI_Comm communicator, MPI_Group group, MPI_Comm *created) {
  ++counters->create;
  return PMPI_Comm_create(communicator, group, created);
}

int MPI_Comm_free(MPI_Comm *communicator) {
  ++counters->free;
  return PMPI_Comm_free(communicator);
}

int MPI_Comm_disconnect(MPI_Comm *communicator) {
  ++counters->disconnect;
  return PMPI_Comm_disconnect(communicator);
}

int MPI_Finalize(void) {
  int rank;
  PMPI_Comm_rank(MPI_COMM_WORLD, &rank);
  if (rank == 0)
    printf("tool: init %ld, allreduce %ld, barrier %ld, create %ld, free %ld, disconnect %ld\n",
           counters->init, counters->allreduce, counters->barrier, counters->create, counters->free,
           counters->disconnect);
  fflush(stdout);
  return PMPI_Finalize();
}
