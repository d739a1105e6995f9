// SPDX-License-Identifier: BSD-3-Clause
// The host MPI's turns: when it gets to move the program's other messages, and whether it had any to move.
//
// Most MPIs move messages only inside their own functions. A collective that is served on the board enters
// none of them, so a program that calls nothing else depends on us: otherwise its long messages would never
// be delivered.
#pragma once

#include <time.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <span>

namespace offbeat {

[[nodiscard]] inline double monotonic_s() {
  timespec now{};
  clock_gettime(CLOCK_MONOTONIC, &now);
  return static_cast<double>(now.tv_sec) + 1e-9 * static_cast<double>(now.tv_nsec);
}

// A turn of the host, in which it moves the messages of the whole process, whatever communicator they are on.
struct Progress {
  void (*call)(void* state) = nullptr;
  void* state = nullptr;

  void operator()() const {
    if (call != nullptr) call(state);
  }
};

// When this thread owes the host a turn. The time since the last one is a sum of estimates, because reading a
// clock takes a fifth of a small allreduce. The sum goes on from call to call and from wait to wait, because
// each of them alone may be too short.
class ProgressDue {
 public:
  static constexpr std::int64_t interval_ns = 30'000;

  // True: a turn is due.
  [[nodiscard]] static bool after(std::int64_t passed_ns) {
    left_ns_ -= passed_ns;
    return left_ns_ <= 0;
  }
  // After a served collective. Its waiting time was counted by the wait.
  [[nodiscard]] static bool after_call(std::size_t bytes) {
    return after(50 + static_cast<std::int64_t>(bytes / 16));
  }
  // A long turn copied a part of a message, so the next one comes soon, and those after it at growing
  // intervals. Turns without work take 0.05 to 1 us, by host and network, and are rare enough not to count.
  template <class Turn>
  static void give(Turn&& turn) {
    left_ns_ = interval_ns;  // also if it throws
    // The first time several in a row, to learn how long a turn takes that finds nothing to do.
    const int turns = shortest_ns_ == unknown ? 8 : 1;
    std::int64_t took_ns = 0;
    for (int k = 0; k < turns; ++k) {
      const double began_s = monotonic_s();
      turn();
      took_ns = static_cast<std::int64_t>(1e9 * (monotonic_s() - began_s));
      shortest_ns_ = std::min(shortest_ns_, took_ns);
    }
    const bool was_long = took_ns > 1000 + 8 * shortest_ns_;
    next_ns_ = was_long ? 1000 : std::min(2 * next_ns_, std::max(interval_ns, 64 * shortest_ns_));
    left_ns_ = next_ns_;
  }

 private:
  static constexpr std::int64_t unknown = std::numeric_limits<std::int64_t>::max();

  // Constant-initialised: each access is one instruction without a guard.
  static inline constinit thread_local std::int64_t left_ns_ [[gnu::tls_model("initial-exec")]] = interval_ns;
  static inline constinit thread_local std::int64_t next_ns_ [[gnu::tls_model("initial-exec")]] = interval_ns;
  static inline constinit thread_local std::int64_t shortest_ns_ [[gnu::tls_model("initial-exec")]] = unknown;
};

// Some turns of the host in a row, to find out whether messages come in. MPI does not say whether a turn
// moved anything, but its duration does: idle turns all take the same time, to within some ten nanoseconds,
// and a turn that handles a message more than twice that.
class ProgressBurst {
 public:
  void restart() { turns_ = 0; }
  [[nodiscard]] bool is_over() const { return turns_ == turns; }
  void add(double duration_s) {
    durations_s_[static_cast<std::size_t>(turns_++)] = duration_s;
    if (is_over()) evaluate();
  }
  // Of the last burst that has ended.
  [[nodiscard]] bool moved() const { return moved_; }

 private:
  static constexpr int cold_turns = 2;  // with caches as sleep has left them
  static constexpr int turns = cold_turns + 16;
  static constexpr double jitter_s = 60e-9;  // of the clock and the host

  void evaluate() {
    const auto warm = std::span(durations_s_).subspan<cold_turns>();
    const double limit_s = 2 * *std::ranges::min_element(warm) + jitter_s;
    const auto longer = static_cast<int>(
        std::ranges::count_if(warm, [&](double duration_s) { return duration_s > limit_s; }));
    // One may be an interrupt. A host that does more in, say, every eighth turn does so in every burst.
    fewest_longer_ = std::min(fewest_longer_, longer);
    moved_ = longer >= fewest_longer_ + 2;
  }

  std::array<double, turns> durations_s_;  // written before read; a short wait has no time to clear it
  int turns_ = turns;
  int fewest_longer_ = std::numeric_limits<int>::max() - 2;
  bool moved_ = false;
};

}  // namespace offbeat
