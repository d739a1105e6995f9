// SPDX-License-Identifier: BSD-3-Clause
// An independent count of collective calls, for preloading before the tracer: in MPI_Finalize each rank
// writes a file RANK into the folder COUNT_CALLS. On standard output the lines of several ranks would run
// together.
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>

#define COLLECTIVES(COUNTED)                                                                            \
  COUNTED(allreduce, Allreduce, (const void* a, void* b, int n, MPI_Datatype t, MPI_Op o, MPI_Comm c),  \
          (a, b, n, t, o, c))                                                                           \
  COUNTED(barrier, Barrier, (MPI_Comm c), (c))                                                          \
  COUNTED(bcast, Bcast, (void* a, int n, MPI_Datatype t, int r, MPI_Comm c), (a, n, t, r, c))           \
  COUNTED(reduce, Reduce, (const void* a, void* b, int n, MPI_Datatype t, MPI_Op o, int r, MPI_Comm c), \
          (a, b, n, t, o, r, c))                                                                        \
  COUNTED(allgather, Allgather,                                                                         \
          (const void* a, int n, MPI_Datatype t, void* b, int m, MPI_Datatype u, MPI_Comm c),           \
          (a, n, t, b, m, u, c))                                                                        \
  COUNTED(alltoall, Alltoall,                                                                           \
          (const void* a, int n, MPI_Datatype t, void* b, int m, MPI_Datatype u, MPI_Comm c),           \
          (a, n, t, b, m, u, c))                                                                        \
  COUNTED(gather, Gather,                                                                               \
          (const void* a, int n, MPI_Datatype t, void* b, int m, MPI_Datatype u, int r, MPI_Comm c),    \
          (a, n, t, b, m, u, r, c))                                                                     \
  COUNTED(scan, Scan, (const void* a, void* b, int n, MPI_Datatype t, MPI_Op o, MPI_Comm c),            \
          (a, b, n, t, o, c))

#define DEFINE(name, Name, parameters, arguments) \
  static long count_of_##name;                    \
  int MPI_##Name parameters {                     \
    ++count_of_##name;                            \
    return PMPI_##Name arguments;                 \
  }
COLLECTIVES(DEFINE)

#define PRINT(name, Name, parameters, arguments) fprintf(file, #name "=%ld\n", count_of_##name);

int MPI_Finalize(void) {
  int rank;
  char path[4096];
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  snprintf(path, sizeof path, "%s/%d", getenv("COUNT_CALLS"), rank);
  FILE* file = fopen(path, "w");
  if (!file) {
    perror(path);
    MPI_Abort(MPI_COMM_WORLD, 1);
  }
  COLLECTIVES(PRINT)
  fclose(file);
  return PMPI_Finalize();
}
