// SPDX-License-Identifier: BSD-3-Clause
// Counts says how many calls of a collective a program has made, and how many of them offbeat has served.
#pragma once

#include <atomic>
#include <cstdint>

namespace offbeat {

// Counts calls. One thread writes at a time and any thread may read. Relaxed loads and stores suffice,
// without a locked instruction.
class Counter {
 public:
  void increment() { value_.store(value() + 1, std::memory_order_relaxed); }
  [[nodiscard]] std::uint64_t value() const { return value_.load(std::memory_order_relaxed); }

 private:
  std::atomic<std::uint64_t> value_{0};
};

struct Counts {
  std::uint64_t intercepted = 0;
  std::uint64_t served = 0;

  Counts& operator+=(const Counts& other) {
    intercepted += other.intercepted;
    served += other.served;
    return *this;
  }
};

}  // namespace offbeat
