// SPDX-License-Identifier: BSD-3-Clause
// The functions that start, complete and free requests, where some of those are offbeat's; see activity.hpp.
//
// Each calls `next`, which does the work for the requests of the host, generalised ones among them. Before
// that, what is under way advances; who waits does so until offbeat's requests are complete.
#pragma once

#include <algorithm>
#include <array>
#include <optional>

#include "base/pool.hpp"
#include "mpi/interpose/activity.hpp"

namespace offbeat::wrapped {

inline int raise(const Host& host, MPI_Comm communicator, int code) {
  host.Comm_call_errhandler(communicator, code);
  return code;
}

// The program's requests as the host knows them: in the place of an active persistent one stands the
// generalised request.
class AsTheHostKnows {
 public:
  AsTheHostKnows(int count, MPI_Request* requests) : count_(std::max(count, 0)), requests_(requests) {
    if (requests == nullptr || activities.active_persistent.load(std::memory_order_relaxed) == 0) return;
    for (int i = 0; i < count_; ++i) {
      const Activity* mine = activities.find(requests[i]);
      if (mine == nullptr || !mine->is_persistent() || !mine->is_active()) continue;
      if (substitutes_ == nullptr) copy();
      substitutes_[i] = mine->request();
    }
  }
  AsTheHostKnows(const AsTheHostKnows&) = delete;
  AsTheHostKnows& operator=(const AsTheHostKnows&) = delete;

  [[nodiscard]] MPI_Request* data() { return substitutes_ != nullptr ? substitutes_ : requests_; }
  // Call after the host's function. Persistent requests stay where they were.
  void put_back() {
    for (int i = 0; i < count_ && substitutes_ != nullptr; ++i) {
      if (requests_[i] == substitutes_[i]) continue;
      const Activity* mine = activities.find(requests_[i]);
      if (mine == nullptr || !mine->is_persistent()) requests_[i] = substitutes_[i];
    }
  }

 private:
  void copy() {
    if (count_ > few) memory_.emplace(static_cast<std::size_t>(count_) * sizeof(MPI_Request));
    substitutes_ = memory_ ? reinterpret_cast<MPI_Request*>(memory_->data()) : few_.data();
    std::copy_n(requests_, count_, substitutes_);
  }

  static constexpr int few = 16;
  int count_;
  MPI_Request* requests_;
  MPI_Request* substitutes_ = nullptr;
  std::array<MPI_Request, few> few_;
  std::optional<pool::Block> memory_;
};

class OnRequests {
 public:
  static int start(decltype(PMPI_Start)* next, MPI_Request* request) {
    Activity* mine = find_persistent(request);
    return mine == nullptr ? next(request) : start(next, *mine, request);
  }
  static int startall(decltype(PMPI_Startall)* next, int count, MPI_Request requests[]) {
    if (!activities.any() || inside_offbeat) return next(count, requests);
    int first = 0;  // of those that the host has to start
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
    if (!activities.any() || inside_offbeat) [[likely]]
      return next(request, status);
    if (wait_without_host(request, status)) return MPI_SUCCESS;
    return with_substitutes(1, request, [&](MPI_Request* all) { return next(all, status); });
  }
  static int waitall(decltype(PMPI_Waitall)* next, int count, MPI_Request requests[], MPI_Status statuses[]) {
    return waits(count, requests, [&](MPI_Request* all) { return next(count, all, statuses); });
  }
  // The host might wait for ever in these: who is to complete offbeat's requests meanwhile?
  static int waitany(decltype(PMPI_Waitany)* next, int count, MPI_Request requests[], int* index,
                     MPI_Status* status) {
    return waits_for_some(
        count, requests, [&] { return next(count, requests, index, status); },
        [&](MPI_Request* all, bool& is_over) {
          int flag = 0;
          const int code = runtime().host.Testany(count, all, index, &flag, status);
          is_over = flag != 0;
          return code;
        });
  }
  static int waitsome(decltype(PMPI_Waitsome)* next, int count, MPI_Request requests[], int* done,
                      int indices[], MPI_Status statuses[]) {
    return waits_for_some(
        count, requests, [&] { return next(count, requests, done, indices, statuses); },
        [&](MPI_Request* all, bool& is_over) {
          *done = 0;
          const int code = runtime().host.Testsome(count, all, done, indices, statuses);
          is_over = *done != 0;
          return code;
        });
  }

  static int test(decltype(PMPI_Test)* next, MPI_Request* request, int* flag, MPI_Status* status) {
    if (!activities.any() || inside_offbeat) [[likely]]
      return next(request, flag, status);
    advance(1, request);
    if (flag != nullptr && test_without_host(request, status)) {
      *flag = 1;
      return MPI_SUCCESS;
    }
    return with_substitutes(1, request, [&](MPI_Request* all) { return next(all, flag, status); });
  }
  static int testall(decltype(PMPI_Testall)* next, int count, MPI_Request requests[], int* flag,
                     MPI_Status statuses[]) {
    return looks(count, requests, [&](MPI_Request* all) { return next(count, all, flag, statuses); });
  }
  static int testany(decltype(PMPI_Testany)* next, int count, MPI_Request requests[], int* index, int* flag,
                     MPI_Status* status) {
    return looks(count, requests, [&](MPI_Request* all) { return next(count, all, index, flag, status); });
  }
  static int testsome(decltype(PMPI_Testsome)* next, int count, MPI_Request requests[], int* done,
                      int indices[], MPI_Status statuses[]) {
    return looks(count, requests,
                 [&](MPI_Request* all) { return next(count, all, done, indices, statuses); });
  }

  static int request_get_status(decltype(PMPI_Request_get_status)* next, MPI_Request request, int* flag,
                                MPI_Status* status) {
    return looks(1, &request, [&](MPI_Request* all) { return next(*all, flag, status); });
  }
  // Those of MPI 4.1: some, all and any.
  template <class Next, class... Rest>
  static int request_get_status_of(Next* next, int count, const MPI_Request requests[], Rest... rest) {
    if (next == nullptr) return raise(runtime().host, MPI_COMM_SELF, MPI_ERR_UNSUPPORTED_OPERATION);
    return looks(count, const_cast<MPI_Request*>(requests),
                 [&](MPI_Request* all) { return next(count, all, rest...); });
  }

  static int request_free(decltype(PMPI_Request_free)* next, MPI_Request* request) {
    if (Activity* mine = find_persistent(request)) {
      const bool was_inside = std::exchange(inside_offbeat, true);
      activities.erase(*request);
      if (mine->abandon()) delete mine;
      operations_under_way.clear();
      inside_offbeat = was_inside;
    } else {
      share_with_host(1, request);
    }
    return next(request);
  }
  static int cancel(decltype(PMPI_Cancel)* next, MPI_Request* request) {
    Activity* mine = find_persistent(request);
    return mine == nullptr ? next(request) : raise(runtime().host, mine->communicator(), MPI_ERR_REQUEST);
  }

 private:
  [[nodiscard]] static Activity* find_persistent(const MPI_Request* request) {
    if (!activities.any() || inside_offbeat || request == nullptr) return nullptr;
    Activity* mine = activities.find(*request);
    return mine != nullptr && mine->is_persistent() ? mine : nullptr;
  }

  template <class Next>
  static int start(Next&& next, Activity& mine, MPI_Request* request) {
    if (mine.is_active()) return raise(runtime().host, mine.communicator(), MPI_ERR_REQUEST);
    const Outcome outcome = try_to_start(mine);
    if (outcome.kind == Outcome::Kind::native) return next(request);
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

  // Gives what is under way a chance, and these requests in the first place.
  static void advance(int count, const MPI_Request* requests) noexcept {
    const InsideOffbeat guard;
    operations_under_way.advance(HostCalls::messages);
    operations_under_way.settle();
    for (int i = 0; i < count && requests != nullptr; ++i) {
      if (Activity* mine = activities.find(requests[i]); mine != nullptr && mine->is_active()) mine->look();
    }
    operations_under_way.clear();
  }
  // Null: none of them is offbeat's.
  static Activity* first_active(int count, const MPI_Request* requests) {
    for (int i = 0; i < count && requests != nullptr; ++i) {
      Activity* mine = activities.find(requests[i]);
      if (mine != nullptr && mine->is_active()) return mine;
    }
    return nullptr;
  }

  // Before the host is given these requests.
  static void share_with_host(int count, const MPI_Request* requests) noexcept {
    if (!activities.any() || inside_offbeat) return;
    const InsideOffbeat guard;
    for (int i = 0; i < count && requests != nullptr; ++i) {
      Activity* mine = activities.find(requests[i]);
      if (mine != nullptr && mine->is_active()) mine->share_with_host();
    }
  }

  // Null: it is not offbeat's, or is not active.
  static Activity* active(const MPI_Request* request) {
    Activity* mine = request != nullptr ? activities.find(*request) : nullptr;
    return mine != nullptr && mine->is_active() ? mine : nullptr;
  }
  // False: the host has to end it.
  static bool end_without_host(Activity& mine, MPI_Request* request, MPI_Status* status) noexcept {
    const bool is_persistent = mine.is_persistent();
    if (!mine.end_without_host()) return false;
    if (!is_persistent) *request = MPI_REQUEST_NULL;
    if (status != MPI_STATUS_IGNORE) set_status(runtime().host, status);
    return true;
  }
  // Both: false, too, if it is not offbeat's.
  [[gnu::noinline]] static bool wait_without_host(MPI_Request* request, MPI_Status* status) noexcept {
    const InsideOffbeat guard;
    Activity* mine = active(request);
    if (mine != nullptr) mine->wait();
    operations_under_way.clear();
    return mine != nullptr && end_without_host(*mine, request, status);
  }
  [[gnu::noinline]] static bool test_without_host(MPI_Request* request, MPI_Status* status) noexcept {
    const InsideOffbeat guard;
    Activity* mine = active(request);
    return mine != nullptr && end_without_host(*mine, request, status);
  }

  // What the host does not know of the outcome.
  static int tell(int code) {
    const RequestFailure failure = std::exchange(request_failure, {});
    return failure.code == MPI_SUCCESS ? code : raise(runtime().host, failure.communicator, failure.code);
  }
  template <class Body>
  static int with_substitutes(int count, MPI_Request* requests, Body&& body) {
    share_with_host(count, requests);
    AsTheHostKnows all(count, requests);
    const int code = body(all.data());
    all.put_back();
    return tell(code);
  }

  template <class Body>
  static int waits(int count, MPI_Request* requests, Body&& body) {
    if (!activities.any() || inside_offbeat) [[likely]]
      return body(requests);
    wait_for_own(count, requests);
    return with_substitutes(count, requests, body);
  }
  [[gnu::noinline]] static void wait_for_own(int count, const MPI_Request* requests) noexcept {
    const InsideOffbeat guard;
    for (int i = 0; i < count && requests != nullptr; ++i) {
      Activity* mine = activities.find(requests[i]);
      if (mine != nullptr && mine->is_active()) mine->wait();
    }
    operations_under_way.clear();
  }

  template <class Body>
  static int looks(int count, MPI_Request* requests, Body&& body) {
    if (!activities.any() || inside_offbeat) [[likely]]
      return body(requests);
    advance(count, requests);
    return with_substitutes(count, requests, body);
  }

  template <class Next, class Test>
  static int waits_for_some(int count, MPI_Request* requests, Next&& next, Test&& test) {
    if (!activities.any() || inside_offbeat || first_active(count, requests) == nullptr) [[likely]]
      return next();
    const Patience patience = patience_without_board(runtime().settings);
    Patience::Wait wait(patience);
    for (;;) {
      advance(count, requests);
      bool is_over = false;
      const int code =
          with_substitutes(count, requests, [&](MPI_Request* all) { return test(all, is_over); });
      if (code != MPI_SUCCESS || is_over) return code;
      wait.pause();
    }
  }
};

}  // namespace offbeat::wrapped
