// SPDX-License-Identifier: BSD-3-Clause
// The requests for which a library keeps data of its own. No malloc once warm.
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

// A request passed to a completion call, which may free its handle. Another thread may then get the same
// handle, and even wait for it, before this thread settles its own request.
struct Claim {
  int index;
  Handle handle;
  std::uint64_t number;
};

// Uses memory of the pool, which lives as long as the process: thread-local objects are already gone when an
// exiting program makes its last calls.
class Claims {
 public:
  explicit Claims(std::size_t most) : memory_(most * sizeof(Claim)) {}
  void add(const Claim& claim) { new (memory_.data() + size_++ * sizeof(Claim)) Claim(claim); }
  [[nodiscard]] std::span<const Claim> all() const {
    return {reinterpret_cast<const Claim*>(memory_.data()), size_};
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
    table_.insert(abi::bits(request), {.kept = std::move(kept), .thread = this_thread()});
  }
  // Null if nothing is kept for the request. Valid until the next insertion or removal.
  [[nodiscard]] Kept* find(MPI_Request request) {
    Entry* entry = table_.find(abi::bits(request), any);
    return entry != nullptr ? &entry->kept : nullptr;
  }
  void erase(Handle handle) { table_.erase(handle, any); }

  // Before a completion call: claims those of its requests that are kept.
  void claim(int count, const MPI_Request* requests, Claims& claims) {
    const auto is_free = [](const Entry& entry) { return entry.claim == 0; };
    const auto is_own = [&](const Entry& entry) { return is_free(entry) && entry.thread == this_thread(); };
    for (int i = 0; i < count; ++i) {
      const Handle handle = abi::bits(requests[i]);
      Entry* entry = table_.find(handle, is_own);
      if (entry == nullptr) entry = table_.find(handle, is_free);
      if (entry == nullptr) continue;
      entry->claim = ++claims_;
      claims.add({i, handle, entry->claim});
    }
  }
  // After the call: releases the claims. `is_over(index, kept)` says which requests to drop.
  template <class IsOver>
  void settle(const Claims& claims, IsOver&& is_over) {
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
    const void* thread = nullptr;  // that made the request: others may have the same handle
    std::uint64_t claim = 0;       // of the completion call in progress; 0: none
  };

  static constexpr auto any = [](const Entry&) { return true; };
  static const void* this_thread() { return &inside_offbeat; }

  HandleTable<Entry> table_;
  std::uint64_t claims_ = 0;
  const MPI_Request null_ = MPI_REQUEST_NULL;  // Open MPI's constants are slow to look up; see abi.hpp
};

}  // namespace offbeat
