// SPDX-License-Identifier: BSD-3-Clause
// These functions start, complete and free requests if some of the requests are offbeat's (activity.hpp).
//
// Each function completes offbeat's requests itself, and calls `next` for the host's. The host regards
// offbeat's active requests in the list as incomplete, and does not see inactive ones. While offbeat has no
// request, each function costs two loads.
#pragma once

#include <cstdint>
#include <utility>

#include "mpi/interpose/all_requests.hpp"
#include "mpi/interpose/own_requests.hpp"
#include "mpi/interpose/some_requests.hpp"

namespace offbeat::wrapped {

class RequestCalls {
 public:
  static int start(decltype(PMPI_Start)* next, MPI_Request* request) {
    Activity* mine = find_persistent(request);
    return mine == nullptr ? next(request) : start(next, *mine, request);
  }
  static int startall(decltype(PMPI_Startall)* next, int count, MPI_Request requests[]) {
    if (!activities.any_persistent() || inside_offbeat) return next(count, requests);
    int first = 0;  // the first request that the host still has to start
    int code = MPI_SUCCESS;
    for (int i = 0; i < count && code == MPI_SUCCESS; ++i) {
      Activity* mine = find_persistent(&requests[i]);
      if (mine == nullptr) continue;
      if (i > first) code = next(i - first, &requests[first]);
      if (code == MPI_SUCCESS) code = start(runtime().host.Start, *mine, &requests[i]);
      first = i + 1;
    }
    return code == MPI_SUCCESS && (count > first || count <= 0) ? next(count - first, &requests[first])
                                                                : code;
  }

  static int wait(decltype(PMPI_Wait)* next, MPI_Request* request, MPI_Status* status) {
    return AllRequests::wait(Completion::one, 1, request, status,
                             [&](MPI_Request* one) { return next(one, status); });
  }
  static int waitall(decltype(PMPI_Waitall)* next, int count, MPI_Request requests[], MPI_Status statuses[]) {
    return AllRequests::wait(Completion::many, count, requests, statuses,
                             [&](MPI_Request* all) { return next(count, all, statuses); });
  }
  static int waitany(decltype(PMPI_Waitany)* next, int count, MPI_Request requests[], int* index,
                     MPI_Status* status) {
    int flag = 0;
    return SomeRequests::wait(
        lacks_output(status, index), count, requests,
        [&](MPI_Request* all) { return next(count, all, index, status); },
        [&](std::uint64_t begun) {
          return SomeRequests::testany(runtime().host.Testany, count, requests, index, &flag, status, begun);
        },
        [&] { return flag != 0; });
  }
  static int waitsome(decltype(PMPI_Waitsome)* next, int count, MPI_Request requests[], int* done,
                      int indices[], MPI_Status statuses[]) {
    return SomeRequests::wait(
        lacks_output(statuses, done, indices), count, requests,
        [&](MPI_Request* all) { return next(count, all, done, indices, statuses); },
        [&](std::uint64_t begun) {
          return SomeRequests::testsome(runtime().host.Testsome, count, requests, done, indices, statuses,
                                        begun);
        },
        [&] { return *done != 0; });
  }

  static int test(decltype(PMPI_Test)* next, MPI_Request* request, int* flag, MPI_Status* status) {
    return AllRequests::test(Completion::one, 1, request, flag, status,
                             [&](int, MPI_Request* one) { return next(one, flag, status); });
  }
  static int testall(decltype(PMPI_Testall)* next, int count, MPI_Request requests[], int* flag,
                     MPI_Status statuses[]) {
    return AllRequests::test(Completion::many, count, requests, flag, statuses,
                             [&](int some, MPI_Request* all) { return next(some, all, flag, statuses); });
  }
  static int testany(decltype(PMPI_Testany)* next, int count, MPI_Request requests[], int* index, int* flag,
                     MPI_Status* status) {
    return SomeRequests::testany(next, count, requests, index, flag, status);
  }
  static int testsome(decltype(PMPI_Testsome)* next, int count, MPI_Request requests[], int* done,
                      int indices[], MPI_Status statuses[]) {
    return SomeRequests::testsome(next, count, requests, done, indices, statuses);
  }

  static int request_get_status(decltype(PMPI_Request_get_status)* next, MPI_Request request, int* flag,
                                MPI_Status* status) {
    RequestFailure failure;
    if (none_is_active() || lacks_output(status, flag) || !look_at_one(request, failure)) [[likely]]
      return call_host_with_shown(1, &request, [&](MPI_Request* seen) { return next(*seen, flag, status); });
    *flag = 1;
    put_status(status, Completion::none, failure.code);
    return end_completion(Completion::none, MPI_SUCCESS, failure);
  }
  // Serves the functions of MPI 4.1 for some, all and any of several requests.
  template <class Next, class... Rest>
  static int request_get_status_of_list(Next* next, int count, const MPI_Request requests[], Rest... rest) {
    if (next == nullptr) return raise(runtime().host, MPI_COMM_SELF, MPI_ERR_UNSUPPORTED_OPERATION);
    auto* const all = const_cast<MPI_Request*>(requests);
    if (!none_is_active()) [[unlikely]]
      tell_host(count, all);
    return call_host_with_shown(count, all, [&](MPI_Request* seen) { return next(count, seen, rest...); });
  }
  // Serves MPICH's extension, which looks at the request and changes nothing.
  static int request_is_complete(int (*next)(MPI_Request), MPI_Request request) {
    if (next == nullptr) next = ask_for_status;
    RequestFailure failure;
    const Activity* mine = inside_offbeat ? nullptr : activities.find(request);
    if (mine == nullptr) [[likely]]
      return next(request);
    if (look_at_one(request, failure)) return 1;
    if (active(request) != nullptr) return 0;
    return mine->was_started_by_host() ? next(request) : 1;
  }

  static int request_free(decltype(PMPI_Request_free)* next, MPI_Request* request) {
    if (Activity* mine = find_persistent(request)) {
      const bool was_inside = std::exchange(inside_offbeat, true);
      if (mine->abandon()) delete mine;
      operations_under_way.clear();
      inside_offbeat = was_inside;
    } else if (!none_is_active() && request != nullptr) {
      const InsideOffbeat guard;
      if (Activity* one = active(*request)) {
        one->share_with_host();
      } else {
        measured_requests.forget(*request);
      }
    }
    return next(request);
  }
  static int cancel(decltype(PMPI_Cancel)* next, MPI_Request* request) {
    Activity* mine = find_persistent(request);
    return mine == nullptr ? next(request) : raise(runtime().host, mine->communicator(), MPI_ERR_REQUEST);
  }

 private:
  [[nodiscard]] static Activity* find_persistent(const MPI_Request* request) {
    if (!activities.any_persistent() || inside_offbeat || request == nullptr) return nullptr;
    Activity* mine = activities.find(*request);
    return mine != nullptr && mine->is_persistent() ? mine : nullptr;
  }

  template <class Next>
  static int start(Next&& next, Activity& mine, MPI_Request* request) {
    if (mine.is_active()) return raise(runtime().host, mine.communicator(), MPI_ERR_REQUEST);
    const Outcome outcome = try_to_start(mine);
    mine.started_by_host(false);
    if (outcome.kind == Outcome::Kind::native) {
      const int code = next(request);
      mine.started_by_host(code == MPI_SUCCESS);
      return code;
    }
    if (outcome.kind == Outcome::Kind::failed)
      return raise(runtime().host, mine.communicator(), outcome.code);
    return MPI_SUCCESS;
  }
  static Outcome try_to_start(Activity& mine) noexcept {
    const InsideOffbeat guard;
    try {
      return mine.begin();
    } catch (...) {
      return {.kind = Outcome::Kind::failed, .code = code_of_exception()};
    }
  }

  // Tells the host of all collectives that are over.
  static void tell_host(int count, const MPI_Request* requests) noexcept {
    advance([&] {
      for_each_active(count, requests, [&](int, Activity& mine) {
        if (is_over(mine)) mine.share_with_host();
        return true;
      });
    });
  }
  // Returns true if the request is offbeat's and its collective is over.
  static bool look_at_one(MPI_Request request, RequestFailure& failure) noexcept {
    bool is_found = false;
    advance([&] {
      Activity* mine = active(request);
      is_found = mine != nullptr && is_over(*mine);
      if (is_found) failure = mine->failure();
    });
    return is_found;
  }
  // Asks for the status instead, because this host lacks the extension.
  static int ask_for_status(MPI_Request request) {
    int flag = 0;
    runtime().host.Request_get_status(request, &flag, MPI_STATUS_IGNORE);
    return flag;
  }
};

}  // namespace offbeat::wrapped
