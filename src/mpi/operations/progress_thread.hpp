// SPDX-License-Identifier: BSD-3-Clause
// A thread of offbeat's own that advances operations on the board of a node. It makes no call of the host,
// whatever the thread level.
#pragma once

#include <atomic>
#include <cstdint>
#include <vector>

namespace offbeat {

// Whether somebody looks after operations, or will see that one has begun.
class Duty {
 public:
  // Call when an operation has been announced. True: nobody does, so the caller has to call somebody.
  [[nodiscard]] bool begins() {
    std::atomic_thread_fence(std::memory_order_seq_cst);
    return is_on_.load(std::memory_order_relaxed) == 0 && is_on_.exchange(1) == 0;
  }
  // Call when nothing is left to look after. True: the caller may stop, because whoever begins an operation
  // now calls somebody else.
  [[nodiscard]] bool ends();
  void wait_until_it_begins();
  // To a waiter, after begins().
  void wake();

 private:
  std::atomic<std::uint32_t> is_on_{0};
};

// A process has one.
class ProgressThread {
 public:
  // On CPUs of its own, `cpus`, the thread does all the work from the beginning. Otherwise it only looks
  // after operations that the program has not looked at for a while, and starts when it is first needed.
  // Throws UsageError if this process may run on none of them.
  explicit ProgressThread(const std::vector<int>& cpus);

  [[nodiscard]] bool does_all_work() const { return does_all_work_; }
  // Call when an operation is under way.
  void ensure() const;
  // Its work ends soon.
  static void stop();

 private:
  bool does_all_work_;
};

}  // namespace offbeat
