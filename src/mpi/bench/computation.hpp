// SPDX-License-Identifier: BSD-3-Clause
// What a rank computes while a non-blocking collective is under way: a fixed amount of work that touches no
// memory. If it waited for a fixed time instead, that would hide what is taken from the rank's core
// meanwhile.
//
// Alternatively the rank sleeps, like a rank that waits for an accelerator. Its core is then free.
#pragma once

#include <sys/prctl.h>
#include <time.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "mpi/bench/clock.hpp"
#include "mpi/bench/statistics.hpp"

namespace offbeat::bench {

class Computation {
 public:
  explicit Computation(Nanoseconds wanted, bool asleep)
      : steps_(asleep ? 0 : static_cast<std::int64_t>(static_cast<double>(wanted) * steps_per_ns())),
        sleep_ns_(asleep ? wanted : 0) {
    if (asleep) prctl(PR_SET_TIMERSLACK, 1);
  }

  // Performs the work. Returns how long it takes with nothing under way; for a sleep, how long it took this
  // time.
  Nanoseconds perform() const {
    if (sleep_ns_ == 0) {
      perform(steps_);
      return time_alone_ns_;
    }
    const Nanoseconds begin = now_ns();
    const timespec length{sleep_ns_ / 1'000'000'000, sleep_ns_ % 1'000'000'000};
    nanosleep(&length, nullptr);
    return now_ns() - begin;
  }

  // Performs the work with nothing under way. The median of the last few such times counts, because the speed
  // of a core changes.
  void measure_alone() {
    last_ns_[measured_++ % last_ns_.size()] = time_of(steps_);
    const std::size_t known = std::min(measured_, last_ns_.size());
    time_alone_ns_ = static_cast<Nanoseconds>(
        median_of({last_ns_.begin(), last_ns_.begin() + static_cast<std::ptrdiff_t>(known)}));
  }

 private:
  // Each step needs the result of the step before, so the work cannot be done in parallel.
  static void perform(std::int64_t steps) {
    std::uint64_t state = 1;
    for (std::int64_t k = 0; k < steps; ++k) {
      state = state * 6364136223846793005 + 1442695040888963407;
      asm volatile("" : "+r"(state));
    }
  }
  static double time_of(std::int64_t steps) {
    const Nanoseconds begin = now_ns();
    perform(steps);
    return static_cast<double>(now_ns() - begin);
  }
  // Returns the speed of this rank's core.
  static double steps_per_ns() {
    constexpr std::int64_t steps = 1'000'000;
    static const double rate = [] {
      double least_ns = time_of(steps);
      for (int k = 0; k < 4; ++k) least_ns = std::min(least_ns, time_of(steps));
      return static_cast<double>(steps) / std::max(least_ns, 1.0);
    }();
    return rate;
  }

  std::int64_t steps_;
  Nanoseconds sleep_ns_;
  std::vector<double> last_ns_ = std::vector<double>(5);
  std::size_t measured_ = 0;
  Nanoseconds time_alone_ns_ = 0;
};

}  // namespace offbeat::bench
