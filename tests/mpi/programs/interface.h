/* SPDX-License-Identifier: BSD-3-Clause
 *
 * offbeat's C interface, for programs that run where it is preloaded.
 */
#ifndef INTERFACE_H
#define INTERFACE_H

#include <dlfcn.h>
#include <offbeat/offbeat.h>

#include "check.h"

#ifdef OFFBEAT_TEST_STANDARD_ABI
#define FORTRAN_HANDLE (int)MPI_Comm_toint
#else
#define FORTRAN_HANDLE (int)MPI_Comm_c2f
#endif

static inline void *function(const char *name) {
  void *found = dlsym(RTLD_DEFAULT, name);
  if (found == NULL) {
    fprintf(stderr, "FAIL: %s is not there: not preloaded?\n", name);
    MPI_Abort(MPI_COMM_WORLD, 3);
  }
  return found;
}

static inline offbeat_call sum_call(const void *input, void *output, size_t count, offbeat_type type, offbeat_op op,
                                    int communicator) {
  offbeat_call call = OFFBEAT_CALL_INIT;
  call.collective = "allreduce";
  call.communicator = communicator;
  call.input = input;
  call.output = output;
  call.count = count;
  call.type = type;
  call.op = op;
  return call;
}

static inline offbeat_status offbeat_allreduce(const void *input, void *output, size_t count, offbeat_type type,
                                               offbeat_op op, int communicator) {
  const offbeat_call call = sum_call(input, output, count, type, op, communicator);
  return ((__typeof__(&offbeat_run))function("offbeat_run"))(&call);
}

static inline offbeat_status offbeat_iallreduce(const void *input, void *output, size_t count, offbeat_type type,
                                                offbeat_op op, int communicator, offbeat_request **request) {
  const offbeat_call call = sum_call(input, output, count, type, op, communicator);
  return ((__typeof__(&offbeat_begin))function("offbeat_begin"))(&call, request);
}

#endif
