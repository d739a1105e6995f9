// SPDX-License-Identifier: BSD-3-Clause
// The activities of this process by request, and the requests of the host that they use.
#pragma once

#include <atomic>
#include <cstddef>

#include "base/handle_tables.hpp"
#include "base/pool.hpp"
#include "base/spin_lock.hpp"
#include "mpi/host/host.hpp"

namespace offbeat {

class Activity;

// A request of the host. It is a generalised request, for one collective after another, or the host's own
// request that is the handle of a persistent collective.
struct HostRequest {
  static void* operator new(std::size_t bytes) { return pool::allocate(bytes); }
  static void operator delete(void* memory, std::size_t bytes) { pool::release(memory, bytes); }

  MPI_Request handle{};
  Activity* serves = nullptr;  // null if the request is spare
  HostRequest* next_spare = nullptr;
};

// The activities of this process, by request.
class Activities {
 public:
  // Returns true if any collective may be active. Only then must the functions for requests look requests up.
  // Costs one load.
  [[nodiscard]] bool any_active() const { return active_.load(std::memory_order_relaxed) > 0; }
  [[nodiscard]] bool any_persistent() const { return persistent_.load(std::memory_order_relaxed) > 0; }
  // Returns the activity of a request, or null if the request is not offbeat's.
  [[nodiscard]] Activity* find(MPI_Request request) const {
    const HostRequest* found = table_.find(abi::bits(request));
    return found != nullptr ? found->serves : nullptr;
  }

  // A persistent collective has two requests: `known_as` for its whole life, and another one while it is
  // active. This allocates the table entry of `known_as` beforehand.
  void reserve_persistent();
  void cancel_reservation() noexcept;
  void insert_persistent(HostRequest& known_as) noexcept;
  void erase_persistent(const HostRequest& known_as) noexcept;

  // Returns a request for `activity` that is active for the host, or null if the host has none left. Throws
  // std::bad_alloc.
  [[nodiscard]] HostRequest* take_request(Activity& activity);
  // Returns false if the host knows that the collective is over and has to complete the request.
  [[nodiscard]] bool give_back(Activity& activity) noexcept;
  // Removes a request that the host frees.
  void forget(const HostRequest& request) noexcept;
  // Counts requests of the host that the functions for requests must look up, too (MeasuredRequests).
  void watch_requests_of_host(int change) noexcept;

  // Call this when one of offbeat's functions completes requests, so the host need not be told.
  void reset_polls() {
    if (polls_of_host_.load(std::memory_order_relaxed) != 0)
      polls_of_host_.store(0, std::memory_order_relaxed);
  }

 private:
  // Adds `by` to a count. Call this with the lock held, so that one thread writes at a time.
  static void add_to_count(std::atomic<int>& count, int by) {
    count.store(count.load(std::memory_order_relaxed) + by, std::memory_order_relaxed);
  }
  // The host calls this while it waits.
  static void on_poll_of_host() noexcept;
  static void free_spare_requests() noexcept;
  void tell_host(const Host& host) noexcept;

  SpinLock lock_;
  std::atomic<int> active_{0};
  std::atomic<int> persistent_{0};
  std::atomic<int> polls_of_host_{
      0};  // how often the host has polled since one of offbeat's functions was called
  HostRequest* spare_requests_ = nullptr;
  SharedHandleTable<HostRequest> table_;
};

extern constinit Activities activities;

}  // namespace offbeat
