// SPDX-License-Identifier: BSD-3-Clause
//
// CLOCK_MONOTONIC is one clock for all processes of a host, so ranks of one host
// can agree on an instant without synchronising anything.
#pragma once

#include <sched.h>
#include <time.h>

#include <cstdint>

namespace offbeat::bench {

using Nanoseconds = std::int64_t;

inline Nanoseconds now_ns() {
  timespec time{};
  clock_gettime(CLOCK_MONOTONIC, &time);
  return static_cast<Nanoseconds>(time.tv_sec) * 1'000'000'000 + time.tv_nsec;
}

// Returns the time at which the wait ended.
inline Nanoseconds wait_until(Nanoseconds instant, bool yield) {
  Nanoseconds now = now_ns();
  while (now < instant) {
    if (yield) sched_yield();
    now = now_ns();
  }
  return now;
}

}  // namespace offbeat::bench
