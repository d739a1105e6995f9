// SPDX-License-Identifier: BSD-3-Clause
// MPI_Waitall and MPI_Testall, and MPI_Wait and MPI_Test, which do the same with a list of one.
#pragma once

#include <cstdint>

#include "mpi/interpose/own_requests.hpp"

namespace offbeat::wrapped {

class AllRequests {
 public:
  template <class Next>
  static int wait(Completion completion, int count, MPI_Request* requests, MPI_Status* statuses,
                  Next&& next) {
    if (none_is_active() || lacks_output(statuses)) [[likely]]
      return call_host_with_shown(count, requests, next);
    return wait_with_own(completion, count, requests, statuses, next);
  }
  template <class Next>
  static int test(Completion completion, int count, MPI_Request* requests, int* flag, MPI_Status* statuses,
                  Next&& next) {
    const auto by_host = [&](MPI_Request* all) { return next(count, all); };
    if (none_is_active() || lacks_output(statuses, flag)) [[likely]]
      return call_host_with_shown(count, requests, by_host);
    return test_with_own(completion, count, requests, flag, statuses, by_host);
  }

 private:
  // -- waiting

  template <class Next>
  [[gnu::noinline]] static int wait_with_own(Completion completion, int count, MPI_Request* requests,
                                             MPI_Status* statuses, Next&& next) {
    switch (wait_for_own(completion, count, requests, statuses)) {
      case Own::are_all:
        return MPI_SUCCESS;
      case Own::failed:
        return completion == Completion::one ? fail_one(requests, statuses)
                                             : give_up(count, requests, statuses);
      case Own::are_some:
        break;
    }
    return measured(count, requests, Waits::yes, [&] { return call_host_with_shown(count, requests, next); });
  }

  enum class Own : std::uint8_t { are_all, are_some, failed };
  // Completes offbeat's requests. If a collective has failed, its request and later ones stay active.
  [[gnu::noinline]] static Own wait_for_own(Completion completion, int count, MPI_Request* requests,
                                            MPI_Status* statuses) noexcept {
    const InsideOffbeat guard;
    activities.reset_polls();
    int own = 0;
    bool has_failed = false;
    std::uint64_t measured = 0;
    std::uint64_t waited = 0;  // for the measured ones, which share it
    RequestFailure none;
    for_each_active(count, requests, [&](int i, Activity& mine) {
      ++own;
      const std::uint64_t begun = mine.is_measured() ? RowTrial::now() : 0;
      mine.wait();
      has_failed = mine.failure().code != MPI_SUCCESS;
      if (has_failed) [[unlikely]]
        return false;
      if (mine.is_measured()) [[unlikely]] {
        ++measured;
        waited += RowTrial::now() - begun;
      } else {
        finish(mine, &requests[i], status_at(statuses, i), completion, none);
      }
      return true;
    });
    if (measured > 0 && !has_failed) [[unlikely]] {
      for_each_active(count, requests, [&](int i, Activity& mine) {
        mine.end_measured(waited / measured);
        finish(mine, &requests[i], status_at(statuses, i), completion, none);
        return true;
      });
    }
    operations_under_way.clear();
    if (has_failed) [[unlikely]]
      return Own::failed;
    return own > 0 && own == count ? Own::are_all : Own::are_some;
  }
  static int fail_one(MPI_Request* request, MPI_Status* status) {
    RequestFailure failure;
    finish_own(Completion::one, 1, request, status, failure);
    return report_failure(runtime().host, Completion::one, failure);
  }
  // Completes what is over, because a collective of offbeat's has failed. The rest stays active: waiting for
  // it may take forever, because the ranks that it needs may have the error, too.
  [[gnu::noinline]] static int give_up(int count, MPI_Request* requests, MPI_Status* statuses) {
    int flag = 0;
    preset_errors(count, statuses);
    const int code = measured(count, requests, Waits::no, [&] {
      return call_host_with(count, requests, RequestsForHost::OwnRequests::hidden, [&](MPI_Request* others) {
        return runtime().host.Testall(count, others, &flag, statuses);
      });
    });
    put_statuses(count, requests, statuses, code == MPI_SUCCESS && flag == 0);
    RequestFailure failure;
    finish_own(Completion::many, count, requests, statuses, failure);
    return end_completion(Completion::many, code, failure);
  }

  // -- testing

  struct Found {
    int own_seen = 0;         // the number of offbeat's requests up to `place`
    int place = -1;           // index of offbeat's first request that is not over; -1: none
    bool has_failed = false;  // true if a collective before `place` has failed
    MPI_Request request{};    // the request at `place`, as the host knows it
  };
  [[gnu::noinline]] static Found find_unfinished_own(int count, const MPI_Request* requests) noexcept {
    Found found;
    advance([&] {
      for_each_active(count, requests, [&](int i, Activity& mine) {
        ++found.own_seen;
        if (is_over(mine)) {
          found.has_failed |= mine.failure().code != MPI_SUCCESS;
          return true;
        }
        found.place = i;
        found.request = mine.request();
        return false;
      });
    });
    return found;
  }
  template <class ByHost>
  [[gnu::noinline]] static int test_with_own(Completion completion, int count, MPI_Request* requests,
                                             int* flag, MPI_Status* statuses, ByHost&& by_host) {
    Found found = find_unfinished_own(count, requests);
    if (found.own_seen == 0) {
      return measured(count, requests, Waits::no,
                      [&] { return call_host_with_shown(count, requests, by_host); });
    }
    *flag = 0;
    if (found.place >= 0 && count > 1) {
      give_turn(found.request);
      if (found.has_failed) [[unlikely]] {
        preset_errors(count, statuses);
        return tell_states(count, requests, statuses, MPI_SUCCESS);
      }
      return MPI_SUCCESS;
    }
    if (found.place >= 0) {
      const int code = by_host(&found.request);  // gives the host a turn
      // The host may have been told of the end meanwhile.
      if (*flag != 0 && !is_persistent(requests)) *requests = MPI_REQUEST_NULL;
      return code;
    }
    int code = MPI_SUCCESS;
    if (found.own_seen == count) {
      *flag = 1;
    } else {
      if (found.has_failed) [[unlikely]]
        preset_errors(count, statuses);
      code = call_host_with(count, requests, RequestsForHost::OwnRequests::hidden, by_host);
      if (*flag == 0) {
        if (code == MPI_SUCCESS && !found.has_failed) [[likely]]
          return MPI_SUCCESS;
        return tell_states(count, requests, statuses, code);
      }
    }
    RequestFailure failure;
    finish_own(completion, count, requests, statuses, failure);
    return end_completion(completion, code, failure);
  }
  // Lets the host find this request complete, but not complete it: a test of several requests that says no
  // leaves all of them as they are.
  static void give_turn(MPI_Request request) noexcept {
    const InsideOffbeat guard;
    int is_over = 0;
    runtime().host.Request_get_status(request, &is_over, MPI_STATUS_IGNORE);
  }
  [[nodiscard]] static bool is_persistent(const MPI_Request* request) {
    const Activity* mine = activities.find(*request);
    return mine != nullptr && mine->is_persistent();
  }

  // -- both

  // Completes offbeat's requests that are over.
  static void finish_own(Completion completion, int count, MPI_Request* requests, MPI_Status* statuses,
                         RequestFailure& failure) noexcept {
    const InsideOffbeat guard;
    for_each_active(count, requests, [&](int i, Activity& mine) {
      if (mine.is_over()) finish(mine, &requests[i], status_at(statuses, i), completion, failure);
      return true;
    });
  }
  // Call this before the host's function if a collective has failed: the host may leave MPI_ERROR alone if
  // none of its own requests has failed. What it writes counts, whatever it returns: MPICH 5 returns
  // MPI_SUCCESS after it has called an error handler of the program.
  [[gnu::noinline]] static void preset_errors(int count, MPI_Status* statuses) noexcept {
    for (int i = 0; i < count && statuses != MPI_STATUSES_IGNORE; ++i) statuses[i].MPI_ERROR = MPI_SUCCESS;
  }
  // Writes how each of offbeat's requests stands, and completes none. With `host_says_no`, the host has said
  // that not all of its own are complete, and has not written their statuses. Returns the first failure of a
  // collective.
  [[gnu::noinline]] static RequestFailure put_statuses(int count, const MPI_Request* requests,
                                                       MPI_Status* statuses, bool host_says_no) noexcept {
    const InsideOffbeat guard;
    RequestFailure first;
    for (int i = 0; i < count && requests != nullptr; ++i) {
      MPI_Status* const status = status_at(statuses, i);
      const Activity* const mine = activities.find(requests[i]);
      if (mine != nullptr && mine->is_active()) {
        if (first.code == MPI_SUCCESS && mine->is_over()) first = mine->failure();
        put_status(status, Completion::many, mine->is_over() ? mine->failure().code : MPI_ERR_PENDING);
      } else if (host_says_no && status != MPI_STATUS_IGNORE && status->MPI_ERROR == MPI_SUCCESS &&
                 requests[i] != MPI_REQUEST_NULL && (mine == nullptr || mine->was_started_by_host())) {
        status->MPI_ERROR = MPI_ERR_PENDING;
      }
    }
    return first;
  }
  static int tell_states(int count, const MPI_Request* requests, MPI_Status* statuses, int code) {
    return end_completion(Completion::many, code,
                          put_statuses(count, requests, statuses, code == MPI_SUCCESS));
  }
};

}  // namespace offbeat::wrapped
