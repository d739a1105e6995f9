// SPDX-License-Identifier: BSD-3-Clause
// These functions start, complete and free requests if some of the requests are offbeat's (activity.hpp).
//
// Each function completes offbeat's requests itself, and calls `next` for the host's. The host regards
// offbeat's active requests in the list as incomplete, and does not see inactive ones. While offbeat has no
// request, each function costs two loads.
#pragma once

#include <cstdint>
#include <utility>

#include "mpi/interpose/activity.hpp"
#include "mpi/interpose/measured_requests.hpp"
#include "mpi/interpose/requests_for_host.hpp"

namespace offbeat::wrapped {

inline int raise(const Host& host, MPI_Comm communicator, int code) {
  host.Comm_call_errhandler(communicator, code);
  return code;
}

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
    return waitall_or_one(1, request, status, [&](MPI_Request* one) { return next(one, status); });
  }
  static int waitall(decltype(PMPI_Waitall)* next, int count, MPI_Request requests[], MPI_Status statuses[]) {
    return waitall_or_one(count, requests, status_at(statuses, 0),
                          [&](MPI_Request* all) { return next(count, all, statuses); });
  }
  // The host might wait forever in these functions, because no thread would complete offbeat's requests
  // meanwhile.
  static int waitany(decltype(PMPI_Waitany)* next, int count, MPI_Request requests[], int* index,
                     MPI_Status* status) {
    int flag = 0;
    return waits_for_some(
        count, requests, [&](MPI_Request* all) { return next(count, all, index, status); },
        [&](std::uint64_t begun) {
          return testany(runtime().host.Testany, count, requests, index, &flag, status, begun);
        },
        [&] { return flag != 0; });
  }
  static int waitsome(decltype(PMPI_Waitsome)* next, int count, MPI_Request requests[], int* done,
                      int indices[], MPI_Status statuses[]) {
    return waits_for_some(
        count, requests, [&](MPI_Request* all) { return next(count, all, done, indices, statuses); },
        [&](std::uint64_t begun) {
          return testsome(runtime().host.Testsome, count, requests, done, indices, statuses, begun);
        },
        [&] { return *done != 0; });
  }

  static int test(decltype(PMPI_Test)* next, MPI_Request* request, int* flag, MPI_Status* status) {
    return testall_or_one(1, request, flag, status,
                          [&](int, MPI_Request* one) { return next(one, flag, status); });
  }
  static int testall(decltype(PMPI_Testall)* next, int count, MPI_Request requests[], int* flag,
                     MPI_Status statuses[]) {
    return testall_or_one(count, requests, flag, status_at(statuses, 0),
                          [&](int some, MPI_Request* all) { return next(some, all, flag, statuses); });
  }
  // `begun` is when the program began to wait, or 0 if it does not wait.
  template <class Next>
  static int testany(Next&& next, int count, MPI_Request requests[], int* index, int* flag,
                     MPI_Status* status, std::uint64_t begun = 0) {
    const auto by_host = [&](MPI_Request* all) { return next(count, all, index, flag, status); };
    if (none_is_active()) [[likely]]
      return call_host_with_shown(count, requests, by_host);
    Failure failure;
    const int found = finish_first(count, requests, status, begun, failure);
    if (found < 0) {
      return measured(count, requests, Waits::no,
                      [&] { return call_host_with_shown(count, requests, by_host); });
    }
    *index = found;
    *flag = 1;
    return report_failure(MPI_SUCCESS, failure);
  }
  template <class Next>
  static int testsome(Next&& next, int count, MPI_Request requests[], int* done, int indices[],
                      MPI_Status statuses[], std::uint64_t begun = 0) {
    if (none_is_active()) [[likely]] {
      return call_host_with_shown(
          count, requests, [&](MPI_Request* all) { return next(count, all, done, indices, statuses); });
    }
    Failure failure;
    const int own = finish_some(count, requests, indices, statuses, begun, failure);
    const int code = measured(count, requests, Waits::no, [&] {
      return call_host_with_shown(count, requests, [&](MPI_Request* all) {
        return next(count, all, done, indices + own, status_at(statuses, own));
      });
    });
    if (own > 0) *done = own + (*done == MPI_UNDEFINED ? 0 : *done);
    return report_failure(code, failure);
  }

  static int request_get_status(decltype(PMPI_Request_get_status)* next, MPI_Request request, int* flag,
                                MPI_Status* status) {
    Failure failure;
    if (none_is_active() || flag == nullptr || !look_at_one(request, failure)) [[likely]]
      return call_host_with_shown(1, &request, [&](MPI_Request* seen) { return next(*seen, flag, status); });
    *flag = 1;
    if (status != MPI_STATUS_IGNORE) set_status(runtime().host, status);
    return report_failure(MPI_SUCCESS, failure);
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
    Failure failure;
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
  using Failure = RequestFailure;

  // Also returns true inside offbeat, where the host serves all requests.
  [[nodiscard]] static bool none_is_active() { return !activities.any_active() || inside_offbeat; }
  [[nodiscard]] static Activity* find_persistent(const MPI_Request* request) {
    if (!activities.any_persistent() || inside_offbeat || request == nullptr) return nullptr;
    Activity* mine = activities.find(*request);
    return mine != nullptr && mine->is_persistent() ? mine : nullptr;
  }
  // Returns null if the request is not offbeat's, or not active.
  [[nodiscard]] static Activity* active(MPI_Request request) {
    Activity* mine = activities.find(request);
    return mine != nullptr && mine->is_active() ? mine : nullptr;
  }
  [[nodiscard]] static MPI_Status* status_at(MPI_Status* statuses, int i) {
    return statuses == MPI_STATUSES_IGNORE ? MPI_STATUS_IGNORE : statuses + i;
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

  // Completes a request that is over.
  static void finish(Activity& mine, MPI_Request* request, MPI_Status* status, Failure& failure) noexcept {
    const bool is_persistent = mine.is_persistent();
    const Failure told = mine.finish();
    if (!is_persistent) *request = MPI_REQUEST_NULL;
    if (status != MPI_STATUS_IGNORE) set_status(runtime().host, status);
    if (failure.code == MPI_SUCCESS) failure = told;
  }
  // Reports an error of offbeat's collectives if the call was otherwise a success. No lock is held meanwhile.
  static int report_failure(int code, const Failure& failure) {
    if (code != MPI_SUCCESS || failure.code == MPI_SUCCESS) return code;
    return raise(runtime().host, failure.communicator, failure.code);
  }

  // Advances the operations under way, then calls poll_host_pipeline().
  template <class Look>
  static void advance(Look&& look) noexcept {
    const InsideOffbeat guard;
    activities.reset_polls();
    operations_under_way.advance(HostCalls::messages);
    operations_under_way.settle();
    look();
    operations_under_way.clear();
  }
  [[nodiscard]] static bool is_over(Activity& mine) noexcept {
    if (!mine.is_over()) mine.poll_host_pipeline();
    return mine.is_over();
  }
  // Calls `visit(i, activity)` for each request that is offbeat's and active, until it returns false.
  template <class Visit>
  static void for_each_active(int count, const MPI_Request* requests, Visit&& visit) {
    const MPI_Request none = MPI_REQUEST_NULL;  // Open MPI's constants are slow to look up
    for (int i = 0; i < count && requests != nullptr; ++i) {
      if (requests[i] == none) continue;
      if (Activity* mine = active(requests[i]); mine != nullptr && !visit(i, *mine)) return;
    }
  }

  // -- all of a list, or one request

  // Returns true if all requests were offbeat's.
  [[gnu::noinline]] static bool wait_for_own(int count, MPI_Request* requests, MPI_Status* statuses,
                                             Failure& failure) noexcept {
    const InsideOffbeat guard;
    activities.reset_polls();
    int own = 0;
    std::uint64_t measured = 0;
    std::uint64_t waited = 0;  // for the measured ones, which share it
    for_each_active(count, requests, [&](int i, Activity& mine) {
      ++own;
      const std::uint64_t begun = mine.is_measured() ? RowTrial::now() : 0;
      mine.wait();
      if (mine.is_measured()) [[unlikely]] {
        ++measured;
        waited += RowTrial::now() - begun;
      } else {
        finish(mine, &requests[i], status_at(statuses, i), failure);
      }
      return true;
    });
    if (measured > 0) [[unlikely]] {
      for_each_active(count, requests, [&](int i, Activity& mine) {
        mine.end_measured(waited / measured);
        finish(mine, &requests[i], status_at(statuses, i), failure);
        return true;
      });
    }
    operations_under_way.clear();
    return own > 0 && own == count;
  }
  template <class Next>
  static int waitall_or_one(int count, MPI_Request* requests, MPI_Status* statuses, Next&& next) {
    if (none_is_active()) [[likely]]
      return call_host_with_shown(count, requests, next);
    Failure failure;
    const bool are_own = wait_for_own(count, requests, statuses, failure);
    if (are_own) return report_failure(MPI_SUCCESS, failure);
    return report_failure(
        measured(count, requests, Waits::yes, [&] { return call_host_with_shown(count, requests, next); }),
        failure);
  }

  struct Found {
    int own_seen = 0;       // offbeat's requests up to that one
    int place = -1;         // index of offbeat's first request that is not over
    MPI_Request request{};  // that one, as the host knows it
  };
  [[gnu::noinline]] static Found find_unfinished_own(int count, const MPI_Request* requests) noexcept {
    Found found;
    advance([&] {
      for_each_active(count, requests, [&](int i, Activity& mine) {
        ++found.own_seen;
        if (is_over(mine)) return true;
        found.place = i;
        found.request = mine.request();
        return false;
      });
    });
    return found;
  }
  static void finish_own(int count, MPI_Request* requests, MPI_Status* statuses, Failure& failure) noexcept {
    const InsideOffbeat guard;
    for_each_active(count, requests, [&](int i, Activity& mine) {
      finish(mine, &requests[i], status_at(statuses, i), failure);
      return true;
    });
  }
  template <class Next>
  static int testall_or_one(int count, MPI_Request* requests, int* flag, MPI_Status* statuses, Next&& next) {
    const auto by_host = [&](MPI_Request* all) { return next(count, all); };
    if (none_is_active() || flag == nullptr) [[likely]]
      return call_host_with_shown(count, requests, by_host);
    Found found = find_unfinished_own(count, requests);
    if (found.own_seen == 0) {
      return measured(count, requests, Waits::no,
                      [&] { return call_host_with_shown(count, requests, by_host); });
    }
    if (found.place >= 0 && count > 1) {
      give_turn(found.request);
      *flag = 0;
      return MPI_SUCCESS;
    }
    if (found.place >= 0) {
      const int code = next(1, &found.request);  // gives the host a turn
      // The host may have been told of the end meanwhile.
      if (code == MPI_SUCCESS && *flag != 0 && find_persistent(requests) == nullptr)
        *requests = MPI_REQUEST_NULL;
      return code;
    }
    if (found.own_seen == count) {
      *flag = 1;
    } else {
      const int code = call_host_with(count, requests, RequestsForHost::OwnRequests::hidden,
                                      [&](MPI_Request* others) { return next(count, others); });
      if (code != MPI_SUCCESS || *flag == 0) return code;
    }
    Failure failure;
    finish_own(count, requests, statuses, failure);
    return report_failure(MPI_SUCCESS, failure);
  }

  // Lets the host find this request complete, but not complete it: a test of several requests that says no
  // leaves all of them as they are.
  static void give_turn(MPI_Request request) noexcept {
    const InsideOffbeat guard;
    int is_over = 0;
    runtime().host.Request_get_status(request, &is_over, MPI_STATUS_IGNORE);
  }

  // -- some of a list

  // Ends the first request whose collective is over, as MPI_Waitany does. Returns its index, or -1.
  [[gnu::noinline]] static int finish_first(int count, MPI_Request* requests, MPI_Status* status,
                                            std::uint64_t begun, Failure& failure) noexcept {
    int found = -1;
    advance([&] {
      for_each_active(count, requests, [&](int i, Activity& mine) {
        if (!is_over(mine)) return true;
        end_measured(mine, begun);
        finish(mine, &requests[i], status, failure);
        found = i;
        return false;
      });
    });
    return found;
  }
  // Ends all requests whose collectives are over, as MPI_Waitsome does. Returns how many there were.
  [[gnu::noinline]] static int finish_some(int count, MPI_Request* requests, int* indices,
                                           MPI_Status* statuses, std::uint64_t begun,
                                           Failure& failure) noexcept {
    int found = 0;
    advance([&] {
      for_each_active(count, requests, [&](int i, Activity& mine) {
        if (!is_over(mine)) return true;
        if (end_measured(mine, begun)) begun = RowTrial::now();
        finish(mine, &requests[i], status_at(statuses, found), failure);
        indices[found++] = i;
        return true;
      });
    });
    return found;
  }
  // Ends the measurement of a call for which the program has waited since `begun`. Returns false if there is
  // none.
  static bool end_measured(Activity& mine, std::uint64_t begun) noexcept {
    if (begun == 0 || !mine.is_measured()) [[likely]]
      return false;
    mine.end_measured(RowTrial::now() - begun);
    return true;
  }
  [[nodiscard]] static bool has_active(int count, const MPI_Request* requests) {
    bool is_found = false;
    for_each_active(count, requests, [&](int, Activity&) { return !(is_found = true); });
    return is_found;
  }
  template <class Next, class Test, class IsOver>
  static int waits_for_some(int count, MPI_Request* requests, Next&& next, Test&& test, IsOver&& is_over) {
    if (none_is_active()) [[likely]]
      return call_host_with_shown(count, requests, next);
    if (!has_active(count, requests)) {
      return measured(count, requests, Waits::yes,
                      [&] { return call_host_with_shown(count, requests, next); });
    }
    std::uint64_t begun = 0;
    for_each_active(count, requests, [&](int, Activity& mine) {
      if (mine.is_measured()) begun = RowTrial::now();
      return begun == 0;
    });
    const Patience patience = patience_without_board(runtime().settings);
    Patience::Wait wait(patience);
    for (;;) {
      const int code = test(begun);
      if (code != MPI_SUCCESS || is_over()) return code;
      wait.pause();
    }
  }

  // -- the host's requests

  enum class Waits : std::uint8_t { no, yes };
  // Calls `body`, which may complete requests of the host, and measures those that are watched.
  template <class Body>
  static int measured(int count, MPI_Request* requests, Waits waits, Body&& body) {
    MeasuredRequests::WaitMeasurement watch(count, requests);
    return watch.end(body(), waits == Waits::yes);
  }

  template <class Body>
  static int call_host_with(int count, MPI_Request* requests, RequestsForHost::OwnRequests own, Body&& body) {
    RequestsForHost all(count, requests);
    if (!run_unless_out_of_memory([&] { all.replace(own); }))
      return raise(runtime().host, MPI_COMM_SELF, MPI_ERR_NO_MEM);
    const int code = body(all.data());
    all.write_back();
    return code;
  }
  template <class Body>
  static int call_host_with_shown(int count, MPI_Request* requests, Body&& body) {
    if (!activities.any_persistent() || inside_offbeat) [[likely]]
      return body(requests);
    return call_host_with(count, requests, RequestsForHost::OwnRequests::shown, body);
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
  static bool look_at_one(MPI_Request request, Failure& failure) noexcept {
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
