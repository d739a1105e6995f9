// SPDX-License-Identifier: BSD-3-Clause
// What the functions that complete requests do with offbeat's requests in a list of the program's, and how
// they call the host for the others.
#pragma once

#include <cstdint>

#include "mpi/interpose/activity.hpp"
#include "mpi/interpose/measured_requests.hpp"
#include "mpi/interpose/requests_for_host.hpp"

namespace offbeat::wrapped {

inline int raise(const Host& host, MPI_Comm communicator, int code) {
  host.Comm_call_errhandler(communicator, code);
  return code;
}

// -- offbeat's requests

// Also returns true inside offbeat, where the host serves all requests.
[[nodiscard]] inline bool none_is_active() { return !activities.any_active() || inside_offbeat; }
// Returns null if the request is not offbeat's, or not active.
[[nodiscard]] inline Activity* active(MPI_Request request) {
  Activity* mine = activities.find(request);
  return mine != nullptr && mine->is_active() ? mine : nullptr;
}
// Calls `visit(i, activity)` for each request that is offbeat's and active, until it returns false.
template <class Visit>
void for_each_active(int count, const MPI_Request* requests, Visit&& visit) {
  const MPI_Request none = MPI_REQUEST_NULL;  // Open MPI's constants are slow to look up
  for (int i = 0; i < count && requests != nullptr; ++i) {
    if (requests[i] == none) continue;
    if (Activity* mine = active(requests[i]); mine != nullptr && !visit(i, *mine)) return;
  }
}
// Returns true if the program has no place for a result. The host reports that before it completes anything.
// A status that is ignored is null in some hosts.
template <class... Output>
[[nodiscard]] bool lacks_output(const MPI_Status* status, const Output*... outputs) {
  const MPI_Status* const ignored = MPI_STATUS_IGNORE;
  return (status == nullptr && ignored != nullptr) || ((outputs == nullptr) || ...);
}
// Advances the operations under way, then calls `look`, which may complete requests.
template <class Look>
void advance(Look&& look) noexcept {
  const InsideOffbeat guard;
  activities.reset_polls();
  operations_under_way.advance(HostCalls::messages);
  operations_under_way.settle();
  look();
  operations_under_way.clear();
}
[[nodiscard]] inline bool is_over(Activity& mine) noexcept {
  if (!mine.is_over()) mine.poll_host_pipeline();
  return mine.is_over();
}

[[nodiscard]] inline MPI_Status* status_at(MPI_Status* statuses, int i) {
  return statuses == MPI_STATUSES_IGNORE ? MPI_STATUS_IGNORE : statuses + i;
}
// Sets the status of a collective. MPI_ERROR is set only for a function that returns several statuses, and
// always there, as in Open MPI: the host may have called an error handler even if it returns no error.
inline void put_status(MPI_Status* status, Completion completion, int code) noexcept {
  if (status == MPI_STATUS_IGNORE) return;
  set_status(runtime().host, status);
  if (completion == Completion::many) status->MPI_ERROR = code;
}
// Completes a request that is over. `failure` is the first failure.
inline void finish(Activity& mine, MPI_Request* request, MPI_Status* status, Completion completion,
                   RequestFailure& failure) noexcept {
  const bool is_persistent = mine.is_persistent();
  const RequestFailure told = mine.finish();
  if (!is_persistent) *request = MPI_REQUEST_NULL;
  put_status(status, completion, told.code);
  if (failure.code == MPI_SUCCESS) failure = told;
}
// Returns what the function returns. `code` is what the host returned for its requests: if that is an error,
// the host has called an error handler.
inline int end_completion(Completion completion, int code, const RequestFailure& failure) {
  if (code != MPI_SUCCESS || failure.code == MPI_SUCCESS) [[likely]]
    return code;
  return report_failure(runtime().host, completion, failure);
}

// -- the host's requests

enum class Waits : std::uint8_t { no, yes };
// Calls `body`, which may complete requests of the host, and measures those that are watched.
template <class Body>
int measured(int count, MPI_Request* requests, Waits waits, Body&& body) {
  MeasuredRequests::WaitMeasurement watch(count, requests);
  return watch.end(body(), waits == Waits::yes);
}

template <class Body>
int call_host_with(int count, MPI_Request* requests, RequestsForHost::OwnRequests own, Body&& body) {
  RequestsForHost all(count, requests);
  if (!run_unless_out_of_memory([&] { all.replace(own); }))
    return raise(runtime().host, MPI_COMM_SELF, MPI_ERR_NO_MEM);
  const int code = body(all.data());
  all.write_back();
  return code;
}
template <class Body>
int call_host_with_shown(int count, MPI_Request* requests, Body&& body) {
  if (!activities.any_persistent() || inside_offbeat) [[likely]]
    return body(requests);
  return call_host_with(count, requests, RequestsForHost::OwnRequests::shown, body);
}

}  // namespace offbeat::wrapped
