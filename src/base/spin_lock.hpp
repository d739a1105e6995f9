// SPDX-License-Identifier: BSD-3-Clause
// SpinLock is a lock for sections of some instructions. A thread that waits for it yields its core.
#pragma once

#include <sched.h>

#include <atomic>

namespace offbeat {

// Use it with std::lock_guard.
class SpinLock {
 public:
  [[nodiscard]] bool try_lock() noexcept { return !is_held_.test_and_set(std::memory_order_acquire); }
  void lock() noexcept {
    while (!try_lock()) sched_yield();
  }
  void unlock() noexcept { is_held_.clear(std::memory_order_release); }

 private:
  std::atomic_flag is_held_{};
};

}  // namespace offbeat
