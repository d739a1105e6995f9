// SPDX-License-Identifier: BSD-3-Clause
// ProgressThread is a thread of offbeat's own that advances operations. It calls the host MPI only for groups
// of several nodes, which need MPI_THREAD_MULTIPLE. So it works at any thread level of MPI.
#pragma once

#include <atomic>
#include <cstdint>
#include <vector>

namespace offbeat {

// Duty is a flag: something (a thread of offbeat, or a hook in the host) looks after operations at present.
// A new operation is never overlooked, even if it is announced while that thread or hook is about to stop.
class Duty {
 public:
  // Call this when an operation has been announced. Returns true if nothing looks after operations, so that
  // the caller must wake or start something that does.
  [[nodiscard]] bool begins() {
    std::atomic_thread_fence(std::memory_order_seq_cst);
    return is_on_.load(std::memory_order_relaxed) == 0 && is_on_.exchange(1) == 0;
  }
  // Call this when nothing is left to look after. Returns true if the caller may stop: an operation that
  // begins from now on makes begins() return true.
  [[nodiscard]] bool ends();
  void wait_until_it_begins();
  // Wakes the thread in wait_until_it_begins(). Call this if begins() returned true.
  void wake();
  void reset() noexcept { is_on_.store(0, std::memory_order_relaxed); }

 private:
  std::atomic<std::uint32_t> is_on_{0};
};

// The thread. A process has one.
class ProgressThread {
 public:
  // If there are `cpus`, the thread runs on them and does all the work. Otherwise it starts when it is first
  // needed, and advances only operations that the program has not advanced for a while. Throws UsageError if
  // this process may run on none of the CPUs.
  explicit ProgressThread(const std::vector<int>& cpus);

  [[nodiscard]] bool does_all_work() const { return does_all_work_; }
  // Call this when an operation is under way. If it is urgent, the thread does not finish its nap.
  void ensure(bool is_urgent = false) const;
  // Call this in the child of a fork(), which has no such thread. The next operation starts one.
  static void forget_thread() noexcept;

 private:
  bool does_all_work_;
};

}  // namespace offbeat
