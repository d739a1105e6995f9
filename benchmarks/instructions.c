// SPDX-License-Identifier: BSD-3-Clause
// instructions COLLECTIVE COUNT CALLS: makes CALLS calls of a collective of COUNT doubles on two ranks. Rank
// 1 is the root, and comes last to each call.
#include <mpi.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static void call(const char* name, const double* mine, double* all, int count) {
  const MPI_Comm comm = MPI_COMM_WORLD;
  if (!strcmp(name, "allreduce")) MPI_Allreduce(mine, all, count, MPI_DOUBLE, MPI_SUM, comm);
  if (!strcmp(name, "reduce")) MPI_Reduce(mine, all, count, MPI_DOUBLE, MPI_SUM, 1, comm);
  if (!strcmp(name, "bcast")) MPI_Bcast(all, count, MPI_DOUBLE, 1, comm);
  if (!strcmp(name, "barrier")) MPI_Barrier(comm);
  if (!strcmp(name, "gather")) MPI_Gather(mine, count, MPI_DOUBLE, all, count, MPI_DOUBLE, 1, comm);
  if (!strcmp(name, "allgather")) MPI_Allgather(mine, count, MPI_DOUBLE, all, count, MPI_DOUBLE, comm);
  if (!strcmp(name, "alltoall")) MPI_Alltoall(mine, count, MPI_DOUBLE, all, count, MPI_DOUBLE, comm);
}

int main(int argc, char** argv) {
  MPI_Init(&argc, &argv);
  int rank;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  if (argc != 4) MPI_Abort(MPI_COMM_WORLD, 2);
  const int count = atoi(argv[2]), calls = atoi(argv[3]);
  double* mine = calloc(2 * count + 1, sizeof(double));
  double* all = calloc(2 * count + 1, sizeof(double));
  for (int i = 0; i < calls; ++i) {
    mine[0] = rank + i;
    if (rank == 1) usleep(100 * (i % 4));
    call(argv[1], mine, all, count);
    if (!strcmp(argv[1], "allreduce") && count > 0 && all[0] != 2 * i + 1) MPI_Abort(MPI_COMM_WORLD, 1);
  }
  MPI_Finalize();
  return 0;
}
