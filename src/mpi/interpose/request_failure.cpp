// SPDX-License-Identifier: BSD-3-Clause
#include "mpi/interpose/request_failure.hpp"

#include "mpi/interpose/activity.hpp"

namespace offbeat {
namespace {

// The code travels as the request's extra state.
int fail_query(void* code, MPI_Status* status) {
  set_status(runtime().host, status);
  return static_cast<int>(reinterpret_cast<std::intptr_t>(code));
}
int free_nothing(void*) { return MPI_SUCCESS; }
int cancel_nothing(void*, int) { return MPI_SUCCESS; }

// Lets a request of the host fail with this code, in a function of the same kind.
int let_host_fail(const Host& host, Completion completion, const RequestFailure& failure) {
  MPI_Request request = MPI_REQUEST_NULL;
  void* const code = reinterpret_cast<void*>(static_cast<std::intptr_t>(failure.code));
  if (host.Grequest_start(fail_query, free_nothing, cancel_nothing, code, &request) != MPI_SUCCESS) {
    host.Comm_call_errhandler(failure.communicator, failure.code);
    return completion == Completion::many ? MPI_ERR_IN_STATUS : failure.code;
  }
  host.Grequest_complete(request);
  int found = 0;
  if (completion == Completion::any) return host.Waitany(1, &request, &found, MPI_STATUS_IGNORE);
  if (completion == Completion::many) return host.Waitall(1, &request, MPI_STATUSES_IGNORE);
  const int told = host.Request_get_status(request, &found, MPI_STATUS_IGNORE);
  host.Request_free(&request);
  return told;
}

}  // namespace

// The handler of MPI_Wait and MPI_Test is that of the communicator; MPICH 4.0 and Intel MPI take it for their
// own requests as long as they know it. In the other functions MPICH calls the handler of MPI_COMM_SELF (5.0)
// or MPI_COMM_WORLD (4.0 and Intel MPI), for a list with MPI_ERR_IN_STATUS. Open MPI calls that of the
// communicator, with the code of the request, and MPI_Request_get_status reports nothing there.
int report_failure(const Host& host, Completion completion, const RequestFailure& failure) {
  const bool is_open_mpi = host.mpi == HostMpi::open_mpi;
  if (is_open_mpi && completion == Completion::none) return MPI_SUCCESS;
  if (!is_open_mpi && completion != Completion::one) return let_host_fail(host, completion, failure);
  host.Comm_call_errhandler(failure.communicator, failure.code);
  return completion == Completion::many ? MPI_ERR_IN_STATUS : failure.code;
}

}  // namespace offbeat
