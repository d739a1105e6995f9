// SPDX-License-Identifier: BSD-3-Clause
// The requests about which a library keeps data. Once warm, they need no malloc.
#pragma once

#include <cstddef>
#include <cstdint>
#include <new>
#include <span>
#include <utility>

#include "base/handle_tables.hpp"
#include "base/pool.hpp"
#include "mpi/host/abi.hpp"
#include "mpi/host/inside_offbeat.hpp"

namespace offbeat {

// A request that was passed to a completion call, which may free its handle. Another thread may then get the
// same handle, and even wait for it, before this thread settles its own request. The number tells the two
// apart.
struct ClaimedRequest {
  int index;
  Handle handle;
  std::uint64_t number;
};

// The claims of one completion call. Their memory comes from the pool, which lives as long as the process:
// thread-local objects are already gone when an exiting program makes its last calls.
class ClaimedRequests {
 public:
  explicit ClaimedRequests(std::size_t most) : memory_(most * sizeof(ClaimedRequest)) {}
  void add(const ClaimedRequest& claim) {
    new (memory_.data() + size_++ * sizeof(ClaimedRequest)) ClaimedRequest(claim);
  }
  [[nodiscard]] std::span<const ClaimedRequest> all() const {
    return {reinterpret_cast<const ClaimedRequest*>(memory_.data()), size_};
  }

 private:
  pool::Block memory_;
  std::size_t size_ = 0;
};

template <class Kept>
class Requests {
 public:
  [[nodiscard]] std::size_t size() const { return table_.size(); }
  [[nodiscard]] bool is_null(MPI_Request request) const { return request == null_; }

  void insert(MPI_Request request, Kept kept) {
    table_.insert(abi::bits(request), {.kept = std::move(kept), .thread = this_thread_id()});
  }
  // Returns null if nothing is kept for the request. The pointer is valid until the next insertion or
  // removal.
  [[nodiscard]] Kept* find(MPI_Request request) {
    Entry* entry = table_.find(abi::bits(request), any);
    return entry != nullptr ? &entry->kept : nullptr;
  }
  void erase(Handle handle) { table_.erase(handle, any); }

  // Call this before a completion call. It claims those of its requests about which data is kept.
  void claim(int count, const MPI_Request* requests, ClaimedRequests& claims) {
    const auto is_free = [](const Entry& entry) { return entry.claim == 0; };
    const auto is_own = [&](const Entry& entry) {
      return is_free(entry) && entry.thread == this_thread_id();
    };
    for (int i = 0; i < count; ++i) {
      const Handle handle = abi::bits(requests[i]);
      Entry* entry = table_.find(handle, is_own);
      if (entry == nullptr) entry = table_.find(handle, is_free);
      if (entry == nullptr) continue;
      entry->claim = ++claims_;
      claims.add({i, handle, entry->claim});
    }
  }
  // Call this after the completion call. It releases the claims; `is_over(index, kept)` returns true for
  // requests to drop.
  template <class IsOver>
  void release_claims(const ClaimedRequests& claims, IsOver&& is_over) {
    for (const auto& [index, handle, number] : claims.all()) {
      Entry* entry = table_.find(handle, [&](const Entry& each) { return each.claim == number; });
      if (entry == nullptr) continue;
      entry->claim = 0;
      if (is_over(index, entry->kept))
        table_.erase(handle, [&](const Entry& each) { return &each == entry; });
    }
  }

 private:
  struct Entry {
    Kept kept;
    const void* thread = nullptr;  // made the request; other threads may have an equal handle
    std::uint64_t claim = 0;       // number of the completion call that claimed it; 0: none
  };

  static constexpr auto any = [](const Entry&) { return true; };
  static const void* this_thread_id() { return &inside_offbeat; }

  HandleTable<Entry> table_;
  std::uint64_t claims_ = 0;
  const MPI_Request null_ = MPI_REQUEST_NULL;  // Open MPI's constants are slow to look up; see abi.hpp
};

}  // namespace offbeat
