// SPDX-License-Identifier: BSD-3-Clause
// The clock of a rank in the benchmark.
#pragma once

#include <sched.h>
#include <time.h>

#include <limits>

#include "clock/clock.hpp"

namespace offbeat::bench {

using clock::Nanoseconds;

[[nodiscard]] inline Nanoseconds now_ns() { return clock::now(); }

inline constexpr Nanoseconds never = std::numeric_limits<Nanoseconds>::max();

// Converts a time of the wall clock to this host's monotonic clock.
[[nodiscard]] inline Nanoseconds from_unix_time(double seconds) {
  timespec time{};
  clock_gettime(CLOCK_REALTIME, &time);
  const double from_now_s =
      seconds - static_cast<double>(time.tv_sec) - 1e-9 * static_cast<double>(time.tv_nsec);
  return now_ns() + static_cast<Nanoseconds>(from_now_s * 1e9);
}

// Waits until `instant`. Returns the time at which the wait ended.
inline Nanoseconds wait_until(Nanoseconds instant, bool yield) {
  Nanoseconds now = now_ns();
  while (now < instant) {
    if (yield) sched_yield();
    now = now_ns();
  }
  return now;
}

}  // namespace offbeat::bench
