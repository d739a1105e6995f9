// SPDX-License-Identifier: BSD-3-Clause
// ForkLock is a lock that the child of a fork() can take, even if another thread of the parent held it when a
// thread forked. A std::mutex would stay locked in the child forever.
#pragma once

#include <sched.h>
#include <sys/types.h>
#include <unistd.h>

#include <atomic>

namespace offbeat {

// The lock knows the process of its holder. Use it with std::lock_guard, and only for rare work: it makes a
// system call. The data it guards must be valid at every instant, because the holder may vanish in the middle
// of a change.
class ForkLock {
 public:
  void lock() noexcept {
    const pid_t mine = getpid();
    for (;;) {
      pid_t holder = holder_.load(std::memory_order_relaxed);
      if (holder != mine && holder_.compare_exchange_weak(holder, mine, std::memory_order_acquire)) return;
      sched_yield();
    }
  }
  void unlock() noexcept { holder_.store(nobody, std::memory_order_release); }

 private:
  static constexpr pid_t nobody = 0;
  std::atomic<pid_t> holder_{nobody};
};

}  // namespace offbeat
