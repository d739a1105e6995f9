// SPDX-License-Identifier: BSD-3-Clause
// Decides when the host MPI gets a turn, in which it moves the program's other messages, and detects whether
// it had any to move.
//
// Most MPIs move messages only inside their own functions. A collective that runs on the board enters none of
// them. So a program that calls nothing else depends on offbeat: without turns its long messages would never
// be delivered.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <span>

#include "base/time.hpp"

namespace offbeat {

// TurnCall gives the host a turn. In it the host moves the messages of the whole process, on all
// communicators.
struct TurnCall {
  void (*call)(void* state) = nullptr;
  void* state = nullptr;

  void operator()() const {
    if (call != nullptr) call(state);
  }
};

// The processor's clock, or another one if there is none. A read took 12 ns on a virtual machine with an AMD
// EPYC. The clock may jump when the thread changes cores.
struct ProcessorClock {
  [[nodiscard]] static std::uint64_t now() {
#if defined(__x86_64__)
    return __builtin_ia32_rdtsc();  // without <x86intrin.h>, which takes a second to compile
#elif defined(__aarch64__)
    std::uint64_t ticks = 0;
    asm volatile("mrs %0, cntvct_el0" : "=r"(ticks));
    return ticks;
#else
    return static_cast<std::uint64_t>(monotonic_ns());
#endif
  }
  // Returns the ticks per microsecond. On x86 this is a guess: most of these clocks have 2 to 4 ticks per
  // nanosecond, and no interval here needs to be exact.
  [[nodiscard]] static std::uint64_t ticks_per_us() {
#if defined(__x86_64__)
    return 2500;
#elif defined(__aarch64__)
    std::uint64_t ticks_per_s = 0;
    asm volatile("mrs %0, cntfrq_el0" : "=r"(ticks_per_s));
    return std::max<std::uint64_t>(1, ticks_per_s / 1'000'000);
#else
    return 1000;
#endif
  }
};

// Says when this thread owes the host a turn: at the end of a collective if the last turn was long ago, and
// earlier if it spins. Real time counts here, not a number of calls. A program that computes between its
// collectives may have begun something that proceeds only in turns of the host: a long message, a write to a
// file that holds a lock, or an epoch of a window. While turns find nothing, they take a thousandth of the
// time that passes, and at best an eighth of that after some hundred turns: a rank that gives a turn is late
// in the next call, and the others wait. If a turn finds something, the next one follows within a
// microsecond. An interrupted turn looks like that, too.
//
// `Storage` has the state of a thread. A library that is loaded with the program may use the faster
// initial-exec model of thread-local memory. One that is loaded later, by dlopen, must not, because the room
// for such memory may be used up.
struct TurnState {
  std::uint64_t calls = 0;          // since the last turn; the other members are ticks of the clock
  std::uint64_t last_turn_end = 0;  // when the last turn ended
  std::uint64_t interval = 0;
  std::uint64_t interval_in_spin = 0;
  std::uint64_t shortest_turn = std::numeric_limits<std::uint64_t>::max();  // the shortest turn so far
};
// These are constant-initialised, so each access to the first one is one instruction without a guard.
template <class Clock>
struct InitialExecThreadLocal {
  static inline constinit thread_local TurnState of_this_thread [[gnu::tls_model("initial-exec")]] = {};
};
template <class Clock>
struct DynamicThreadLocal {
  static inline constinit thread_local TurnState of_this_thread = {};
};

template <class Clock, class Storage = InitialExecThreadLocal<Clock>>
class TurnDueOf {
 public:
  [[nodiscard]] static bool is_due() { return time_since_turn() >= Storage::of_this_thread.interval; }
  // Returns true if a turn is due. Call this after each collective. If a program makes many calls without
  // computing, only some of these calls read the clock.
  [[nodiscard]] static bool is_due_after_call() {
    const std::uint64_t calls = ++Storage::of_this_thread.calls;
    return (calls <= calls_with_look || calls % calls_between_looks == 0) && is_due();
  }
  // Returns true if a turn is due while this rank spins. It has nothing better to do then, so turns are more
  // frequent.
  [[nodiscard]] static bool is_due_in_spin() {
    return time_since_turn() >= Storage::of_this_thread.interval_in_spin;
  }

  // Gives a turn. A long turn has copied a part of a message, so the next turn comes soon, and later ones at
  // growing intervals. A turn without work takes 0.05 to 1 us, depending on host MPI, network, and what the
  // caches still have.
  template <class Turn>
  static void give(Turn&& turn) {
    const std::uint64_t us = Clock::ticks_per_us();
    const std::uint64_t before = Storage::of_this_thread.interval;
    Storage::of_this_thread.calls = 0;
    Storage::of_this_thread.last_turn_end = Clock::now();
    Storage::of_this_thread.interval = Storage::of_this_thread.interval_in_spin =
        usual_us * us;  // set now, in case the turn throws
    // The first time there are several turns in a row, which shows how long a turn without work takes.
    const int turns = Storage::of_this_thread.shortest_turn == unknown ? 8 : 1;
    std::uint64_t took = 0;
    for (int k = 0; k < turns; ++k) {
      const std::uint64_t began = Clock::now();
      turn();
      Storage::of_this_thread.last_turn_end = Clock::now();
      took = Storage::of_this_thread.last_turn_end - began;
      Storage::of_this_thread.shortest_turn = std::min(Storage::of_this_thread.shortest_turn, took);
    }
    const std::uint64_t shortest = Storage::of_this_thread.shortest_turn;
    const bool was_long = took > us + 8 * shortest;
    const std::uint64_t usual = std::max(usual_us * us, turns_of_interval * took);
    if (was_long) {
      Storage::of_this_thread.interval = us;
    } else if (before < usual) {
      Storage::of_this_thread.interval = std::clamp(2 * before, us, usual);
    } else {
      Storage::of_this_thread.interval = std::min(before + before / growth, longest * usual);
    }
    Storage::of_this_thread.interval_in_spin =
        std::min(Storage::of_this_thread.interval, std::max(usual_in_spin_us * us, turns_of_spin * shortest));
  }

 private:
  static constexpr std::uint64_t usual_us = 30;
  static constexpr std::uint64_t usual_in_spin_us = 4;
  static constexpr std::uint64_t turns_of_interval = 1000;  // an interval in turns without work
  static constexpr std::uint64_t growth = 64;               // a longer interval grows by this part of itself
  static constexpr std::uint64_t longest = 8;               // the longest interval in usual ones
  static constexpr std::uint64_t turns_of_spin = 64;
  // The clock is read in the first calls after a turn, and then in every N-th call. Units: calls.
  static constexpr std::uint64_t calls_with_look = 16;
  static constexpr std::uint64_t calls_between_looks = 8;
  static constexpr std::uint64_t unknown = std::numeric_limits<std::uint64_t>::max();

  // Returns the time since the last turn. It is very large if the clock has jumped back.
  [[nodiscard]] static std::uint64_t time_since_turn() {
    return Clock::now() - Storage::of_this_thread.last_turn_end;
  }
};
using TurnDue = TurnDueOf<ProcessorClock>;

// The turns of waits (patience.hpp), which are compiled once for all libraries. Each library is linked with
// one definition: node/turns_in_waits.cpp, or groups/turns_in_waits.cpp if it may be loaded later.
namespace turns_in_waits {
[[nodiscard]] bool are_due();          // TurnDue::is_due
[[nodiscard]] bool are_due_in_spin();  // TurnDue::is_due_in_spin
void give(const TurnCall& turn);       // TurnDue::give
}  // namespace turns_in_waits

// Some turns of the host in a row that show whether messages come in. MPI does not say whether a turn moved
// anything, but its duration does. Idle turns take equal times within some ten nanoseconds, and a turn that
// handles a message takes more than twice as long.
class TurnBurst {
 public:
  void restart() { turns_ = 0; }
  [[nodiscard]] bool is_over() const { return turns_ == turns; }
  void add(std::int64_t duration_ns) {
    durations_ns_[static_cast<std::size_t>(turns_++)] = duration_ns;
    if (is_over()) evaluate();
  }
  // Returns true if messages came in during the last complete burst.
  [[nodiscard]] bool messages_came_in() const { return messages_came_in_; }

 private:
  static constexpr int cold_cache_turns = 2;  // these run with the caches that sleep has left
  static constexpr int turns = cold_cache_turns + 16;
  static constexpr std::int64_t jitter_ns = 60;  // of the clock and of the host

  void evaluate() {
    const auto warm = std::span(durations_ns_).subspan<cold_cache_turns>();
    const std::int64_t limit_ns = 2 * *std::ranges::min_element(warm) + jitter_ns;
    const auto longer = static_cast<int>(
        std::ranges::count_if(warm, [&](std::int64_t duration_ns) { return duration_ns > limit_ns; }));
    // One long turn may be an interrupt. A host that does more work in, say, every eighth turn does so in
    // every burst.
    fewest_long_turns_ = std::min(fewest_long_turns_, longer);
    messages_came_in_ = longer >= fewest_long_turns_ + 2;
  }

  // Written before it is read: clearing it would take too long in a short wait.
  std::array<std::int64_t, turns> durations_ns_;
  int turns_ = turns;
  int fewest_long_turns_ = std::numeric_limits<int>::max() - 2;
  bool messages_came_in_ = false;
};

}  // namespace offbeat
