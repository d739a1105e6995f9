// SPDX-License-Identifier: BSD-3-Clause
// OperationsUnderWay is the list of all operations of this process that were begun and are not complete yet.
#pragma once

#include <atomic>
#include <cstdint>
#include <mutex>

#include "base/spin_lock.hpp"
#include "groups/operation.hpp"

namespace offbeat {

// The operations under way in this process. Any call that waits advances all of them, because MPI promises
// progress in every such call. HostProgress advances them while the program waits inside the host.
class OperationsUnderWay {
 public:
  // The order of the two loads matters: an operation is in the list before it stops counting as announced.
  [[nodiscard]] bool any() const {
    return announced_count_.load(std::memory_order_acquire) != 0 ||
           first_.load(std::memory_order_acquire) != nullptr;
  }
  // Returns true if there is a sequel that any thread may call, and nobody has called it yet.
  [[nodiscard]] bool any_sequels() const { return unsettled_.load(std::memory_order_relaxed) != 0; }
  // Returns true if there is work for a thread of offbeat. The thread that has ended an operation may now be
  // in a long wait, so sequels count, too.
  [[nodiscard]] bool any_or_sequels() const { return any() || any_sequels(); }
  // Queues the operation; the next thread that runs the progress loop starts it. Never blocks.
  void announce(Operation& operation) noexcept;
  // Advances all operations once. Does nothing if another thread, or a caller further up in this thread, is
  // doing so. Returns true if an operation has advanced.
  bool advance(HostCalls calls) noexcept;
  // Calls the sequels of operations that are over. Most sequels call the host. So call this only in a thread
  // of the program, and not from inside the host.
  void settle() noexcept;
  // Calls those sequels that any thread may call.
  void settle_in_any_thread() noexcept { settle(over_anywhere_); }
  // Does the same at the end of a function that waits for no sequel. If a sequel has called that function,
  // the loop that called the sequel calls the next one: otherwise sequels that begin operations would nest
  // without end.
  void settle_unless_in_sequel() noexcept;
  // Makes a sequel due that any thread may call, of an operation that was complete from the beginning.
  void add_complete(Operation& operation) noexcept;
  // Returns the owner of an operation that the progress thread waits for, or null: an urgent one, which a
  // caller learns of only through its `done` function, or one that advances in the thread. Sets `patience` to
  // how the thread waits. The owner stays alive until end_watch(), so use `patience` only until then.
  [[nodiscard]] OperationsOwner* watch(Patience& patience) noexcept;
  void end_watch(OperationsOwner& owner) noexcept;
  // Call this before the program ends the host MPI. WhenHostEnds says what happens to each operation.
  void end_host() noexcept;
  // Call this in the child of a fork(). The operations of the parent are not the child's.
  void forget_all() noexcept;
  // Destroys communicators that the program has freed and whose last operation is over. Call it only where
  // settle() may be called.
  void clear() noexcept;
  // Returns how many times threads have advanced the operations, to detect that one has done so.
  [[nodiscard]] std::uint64_t looks() const { return looks_.load(std::memory_order_relaxed); }

  // A thread must hold the lock to begin, advance or end operations.
  class Lock {
   public:
    explicit Lock(OperationsUnderWay& all) : guard_(all.lock_) { all.take_announced(); }

   private:
    const std::lock_guard<SpinLock> guard_;
  };
  [[nodiscard]] bool has_host_ended() const { return has_host_ended_.load(std::memory_order_relaxed); }
  // Call these while you hold the lock.
  void add(Operation& operation);
  void remove(Operation& operation) noexcept;
  void add_over(Operation& operation) noexcept;
  void expect_over(const Operation& operation) noexcept;
  void add_abandoned(OperationsOwner& owner) noexcept;

 private:
  [[nodiscard]] bool is_watched(const OperationsOwner& owner) noexcept;
  // Call this while you hold the lock.
  void take_announced() noexcept;
  static void settle(std::atomic<Operation*>& over) noexcept;

  SpinLock lock_;
  std::atomic<Operation*> first_{nullptr};
  Operation* last_ = nullptr;
  Operation* next_to_advance_ = nullptr;
  std::atomic<bool> has_host_ended_{false};
  std::atomic<Operation*> announced_{nullptr};      // newest first
  std::atomic<int> announced_count_{0};             // not yet taken by take_announced()
  std::atomic<Operation*> over_{nullptr};           // waiting for their sequels to be called
  std::atomic<Operation*> over_anywhere_{nullptr};  // likewise; any thread may call these sequels
  std::atomic<int> unsettled_{0};                   // how many of these there are, or will be in a moment
  std::atomic<OperationsOwner*> abandoned_{nullptr};
  std::atomic<std::uint64_t> looks_{0};
};

extern constinit OperationsUnderWay operations_under_way;

}  // namespace offbeat
