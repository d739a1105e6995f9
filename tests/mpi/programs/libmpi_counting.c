/* SPDX-License-Identifier: BSD-3-Clause
 *
 * A library that counts what offbeat asks of the MPI, and nobody else: host_calls().
 *
 * It has to be preloaded behind offbeat. Its name begins with libmpi, and it is linked to the MPI: so offbeat takes it
 * for the MPI, and finds here what is here, and the rest in the MPI behind.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <mpi.h>

#include "counting.h"

static struct host_calls counted;

struct host_calls host_calls(void) { return counted; }

/* The next function of this name, behind us. */
static void *behind(const char *name) { return dlsym(RTLD_NEXT, name); }

int PMPI_Allreduce(const void *input, void *output, int count, MPI_Datatype type, MPI_Op op,
                   MPI_Comm communicator) {
  ++counted.allreduces;
  int (*next)(const void *, void *, int, MPI_Datatype, MPI_Op, MPI_Comm) = behind("PMPI_Allreduce");
  return next(input, output, count, type, op, communicator);
}

int PMPI_Reduce(const void *input, void *output, int count, MPI_Datatype type, MPI_Op op, int root,
                MPI_Comm communicator) {
  ++counted.other_collectives;
  int (*next)(const void *, void *, int, MPI_Datatype, MPI_Op, int, MPI_Comm) = behind("PMPI_Reduce");
  return next(input, output, count, type, op, root, communicator);
}

int PMPI_Allgather(const void *input, int count, MPI_Datatype type, void *output, int output_count,
                   MPI_Datatype output_type, MPI_Comm communicator) {
  ++counted.other_collectives;
  int (*next)(const void *, int, MPI_Datatype, void *, int, MPI_Datatype, MPI_Comm);
  next = behind("PMPI_Allgather");
  return next(input, count, type, output, output_count, output_type, communicator);
}

int PMPI_Gather(const void *input, int count, MPI_Datatype type, void *output, int output_count,
                MPI_Datatype output_type, int root, MPI_Comm communicator) {
  ++counted.other_collectives;
  int (*next)(const void *, int, MPI_Datatype, void *, int, MPI_Datatype, int, MPI_Comm);
  next = behind("PMPI_Gather");
  return next(input, count, type, output, output_count, output_type, root, communicator);
}

int PMPI_Bcast(void *data, int count, MPI_Datatype type, int root, MPI_Comm communicator) {
  ++counted.other_collectives;
  int (*next)(void *, int, MPI_Datatype, int, MPI_Comm) = behind("PMPI_Bcast");
  return next(data, count, type, root, communicator);
}

int PMPI_Ibcast(void *data, int count, MPI_Datatype type, int root, MPI_Comm communicator, MPI_Request *request) {
  ++counted.other_collectives;
  int (*next)(void *, int, MPI_Datatype, int, MPI_Comm, MPI_Request *) = behind("PMPI_Ibcast");
  return next(data, count, type, root, communicator, request);
}

int PMPI_Ireduce(const void *input, void *output, int count, MPI_Datatype type, MPI_Op op, int root,
                 MPI_Comm communicator, MPI_Request *request) {
  ++counted.other_collectives;
  int (*next)(const void *, void *, int, MPI_Datatype, MPI_Op, int, MPI_Comm, MPI_Request *);
  next = behind("PMPI_Ireduce");
  return next(input, output, count, type, op, root, communicator, request);
}

int PMPI_Iallgather(const void *input, int count, MPI_Datatype type, void *output, int output_count,
                    MPI_Datatype output_type, MPI_Comm communicator, MPI_Request *request) {
  ++counted.other_collectives;
  int (*next)(const void *, int, MPI_Datatype, void *, int, MPI_Datatype, MPI_Comm, MPI_Request *);
  next = behind("PMPI_Iallgather");
  return next(input, count, type, output, output_count, output_type, communicator, request);
}

int PMPI_Barrier(MPI_Comm communicator) {
  ++counted.other_collectives;
  int (*next)(MPI_Comm) = behind("PMPI_Barrier");
  return next(communicator);
}

int PMPI_Grequest_complete(MPI_Request request) {
  ++counted.completed;
  int (*next)(MPI_Request) = behind("PMPI_Grequest_complete");
  return next(request);
}

int PMPI_Comm_create(MPI_Comm communicator, MPI_Group group, MPI_Comm *created) {
  ++counted.communicators;
  int (*next)(MPI_Comm, MPI_Group, MPI_Comm *) = behind("PMPI_Comm_create");
  return next(communicator, group, created);
}

int PMPI_Comm_create_group(MPI_Comm communicator, MPI_Group group, int tag, MPI_Comm *created) {
  ++counted.communicators;
  int (*next)(MPI_Comm, MPI_Group, int, MPI_Comm *) = behind("PMPI_Comm_create_group");
  return next(communicator, group, tag, created);
}

int PMPI_Comm_dup(MPI_Comm communicator, MPI_Comm *created) {
  ++counted.communicators;
  int (*next)(MPI_Comm, MPI_Comm *) = behind("PMPI_Comm_dup");
  return next(communicator, created);
}

int PMPI_Comm_split(MPI_Comm communicator, int colour, int key, MPI_Comm *created) {
  ++counted.communicators;
  int (*next)(MPI_Comm, int, int, MPI_Comm *) = behind("PMPI_Comm_split");
  return next(communicator, colour, key, created);
}

int PMPI_Comm_split_type(MPI_Comm communicator, int type, int key, MPI_Info info, MPI_Comm *created) {
  ++counted.communicators;
  int (*next)(MPI_Comm, int, int, MPI_Info, MPI_Comm *) = behind("PMPI_Comm_split_type");
  return next(communicator, type, key, info, created);
}
