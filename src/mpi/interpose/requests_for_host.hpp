// SPDX-License-Identifier: BSD-3-Clause
// RequestsForHost is a list of the program's requests as the host has to see it.
#pragma once

#include <algorithm>
#include <cstdint>

#include "base/pool.hpp"
#include "mpi/interpose/activity.hpp"

namespace offbeat::wrapped {

// The generalised request of an active persistent collective replaces its handle. MPI_REQUEST_NULL replaces
// requests that offbeat completes afterwards. It also replaces inactive persistent requests that the host has
// never started, for which MPICH 4 and 5 wait forever.
class RequestsForHost {
 public:
  enum class OwnRequests : std::uint8_t { shown, hidden };

  RequestsForHost(int count, MPI_Request* requests) : count_(std::max(count, 0)), requests_(requests) {}
  // Call this first. Throws std::bad_alloc.
  void replace(OwnRequests own) {
    for (int i = 0; i < count_ && requests_ != nullptr; ++i) {
      const Activity* mine = activities.find(requests_[i]);
      if (mine == nullptr || (mine->is_active() && own == OwnRequests::shown && !mine->is_persistent()))
        continue;
      if (!mine->is_active() && mine->was_started_by_host()) continue;
      if (copies_.empty()) copy();
      const auto k = static_cast<std::size_t>(i);
      copies_[k] = mine->is_active() && own == OwnRequests::shown ? mine->request() : MPI_REQUEST_NULL;
      is_own_[k] = 1;
    }
  }

  [[nodiscard]] MPI_Request* data() { return copies_.empty() ? requests_ : copies_.data(); }
  // Call this after the host's function. Copies the handles that the host has changed into the program's
  // list. offbeat's stay as they were.
  void write_back() {
    for (std::size_t k = 0; k < copies_.size(); ++k) {
      if (is_own_[k] == 0) requests_[k] = copies_[k];
    }
  }

 private:
  void copy() {
    copies_.assign(requests_, requests_ + count_);
    is_own_.assign(copies_.size(), 0);
  }

  int count_;
  MPI_Request* requests_;
  pool::List<MPI_Request> copies_;  // empty if the host sees the program's own list
  pool::List<char> is_own_;         // for each copy: 1 if the request is offbeat's
};

}  // namespace offbeat::wrapped
