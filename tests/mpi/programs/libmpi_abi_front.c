// SPDX-License-Identifier: BSD-3-Clause
// Poses as the libmpi_abi of Open MPI 6, in which Open MPI's own symbols are found.
// Preloaded behind offbeat, it counts the allreduces that offbeat makes.
#define _GNU_SOURCE
#include <dlfcn.h>
#include <mpi.h>
#include <stdio.h>

int ompi_mpi_comm_world;
static int allreduces;

int PMPI_Allreduce(const void* input, void* output, int count, MPI_Datatype type, MPI_Op op,
                   MPI_Comm communicator) {
  ++allreduces;
  int (*next)(const void*, void*, int, MPI_Datatype, MPI_Op, MPI_Comm) = dlsym(RTLD_NEXT, "PMPI_Allreduce");
  return next(input, output, count, type, op, communicator);
}

__attribute__((destructor)) static void tell(void) {
  if (allreduces > 0) printf("allreduces of the host: %d\n", allreduces);
}
