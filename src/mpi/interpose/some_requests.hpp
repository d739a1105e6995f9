// SPDX-License-Identifier: BSD-3-Clause
// MPI_Waitany, MPI_Waitsome, MPI_Testany and MPI_Testsome.
#pragma once

#include <cstdint>

#include "mpi/interpose/own_requests.hpp"

namespace offbeat::wrapped {

class SomeRequests {
 public:
  // `begun` is when the program began to wait, or 0 if it does not wait.
  template <class Next>
  static int testany(Next&& next, int count, MPI_Request requests[], int* index, int* flag,
                     MPI_Status* status, std::uint64_t begun = 0) {
    const auto by_host = [&](MPI_Request* all) { return next(count, all, index, flag, status); };
    if (none_is_active() || lacks_output(status, index, flag)) [[likely]]
      return call_host_with_shown(count, requests, by_host);
    RequestFailure failure;
    const int found = finish_first(count, requests, status, begun, failure);
    if (found < 0) {
      return measured(count, requests, Waits::no,
                      [&] { return call_host_with_shown(count, requests, by_host); });
    }
    *index = found;
    *flag = 1;
    return end_completion(Completion::any, MPI_SUCCESS, failure);
  }
  template <class Next>
  static int testsome(Next&& next, int count, MPI_Request requests[], int* done, int indices[],
                      MPI_Status statuses[], std::uint64_t begun = 0) {
    if (none_is_active() || lacks_output(statuses, done, indices)) [[likely]] {
      return call_host_with_shown(
          count, requests, [&](MPI_Request* all) { return next(count, all, done, indices, statuses); });
    }
    RequestFailure failure;
    const int own = finish_some(count, requests, indices, statuses, begun, failure);
    *done = 0;
    // The host may leave MPI_ERROR alone if none of its own requests has failed.
    for (int i = own; failure.code != MPI_SUCCESS && statuses != MPI_STATUSES_IGNORE && i < count; ++i)
      statuses[i].MPI_ERROR = MPI_SUCCESS;
    const int code = measured(count, requests, Waits::no, [&] {
      return call_host_with_shown(count, requests, [&](MPI_Request* all) {
        return next(count, all, done, indices + own, status_at(statuses, own));
      });
    });
    if (own == 0) return code;
    if (*done == MPI_UNDEFINED) *done = 0;
    *done += own;
    return end_completion(Completion::many, code, failure);
  }

  // The host might wait forever in its function, because no thread would complete offbeat's requests
  // meanwhile. So this calls `test(begun)` until `is_over()`. `is_wrong` is true if the host returns at once,
  // with an error.
  template <class Next, class Test, class IsOver>
  static int wait(bool is_wrong, int count, MPI_Request* requests, Next&& next, Test&& test,
                  IsOver&& is_over) {
    if (none_is_active() || is_wrong) [[likely]]
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

 private:
  // Ends the first request whose collective is over, as MPI_Waitany does. Returns its index, or -1.
  [[gnu::noinline]] static int finish_first(int count, MPI_Request* requests, MPI_Status* status,
                                            std::uint64_t begun, RequestFailure& failure) noexcept {
    int found = -1;
    advance([&] {
      for_each_active(count, requests, [&](int i, Activity& mine) {
        if (!is_over(mine)) return true;
        end_measured(mine, begun);
        finish(mine, &requests[i], status, Completion::any, failure);
        found = i;
        return false;
      });
    });
    return found;
  }
  // Ends all requests whose collectives are over, as MPI_Waitsome does. Returns how many there were.
  [[gnu::noinline]] static int finish_some(int count, MPI_Request* requests, int* indices,
                                           MPI_Status* statuses, std::uint64_t begun,
                                           RequestFailure& failure) noexcept {
    int found = 0;
    advance([&] {
      for_each_active(count, requests, [&](int i, Activity& mine) {
        if (!is_over(mine)) return true;
        if (end_measured(mine, begun)) begun = RowTrial::now();
        finish(mine, &requests[i], status_at(statuses, found), Completion::many, failure);
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
};

}  // namespace offbeat::wrapped
