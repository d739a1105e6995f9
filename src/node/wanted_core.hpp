// SPDX-License-Identifier: BSD-3-Clause
// Detects whether other threads want the core on which this thread waits: compute threads of this rank, or
// another program. A waiter that yields gets the core back after the other thread's time slice, up to 4 ms
// later, and some kernels give the waiter half of the time in vain. A sleeper that is woken runs at once. So
// a waiter on a wanted core sleeps (benchmarks/README.md, compute_threads).
#pragma once

#include <sched.h>
#include <sys/resource.h>
#include <time.h>

#include "node/host_turns.hpp"

namespace offbeat {

// What Linux reports about the calling thread. Tests replace it.
struct ThreadSystemCalls {
  [[nodiscard]] static double now_s() { return monotonic_s(); }
  static void yield() { sched_yield(); }
  // Returns how often the kernel gave the core to another thread although this one wanted it. It does not
  // count what the hypervisor does.
  [[nodiscard]] static long switches() {
    rusage usage{};
    getrusage(RUSAGE_THREAD, &usage);
    return usage.ru_nivcsw;
  }
  // Returns the processor time of this thread.
  [[nodiscard]] static double processor_s() {
    timespec time{};
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
    return static_cast<double>(time.tv_sec) + 1e-9 * static_cast<double>(time.tv_nsec);
  }
};

// Knows whether other threads want the core of the calling thread.
template <class System>
class WantedCoreOf {
 public:
  // Yields, and learns from it: if no other thread can run, the call returns at once.
  static void yield() {
    const double before = System::now_s();
    System::yield();
    const double now = System::now_s();
    if (now - before > shortest_turn_s) [[unlikely]]
      judge_turn(now - before);
  }
  [[nodiscard]] static bool is_wanted() { return wanted_until_s_ > 0 && System::now_s() < wanted_until_s_; }
  // Returns true if the core is wanted, for a thread that waits inside the host MPI and therefore does not
  // yield. Call this before each such wait. Kernel threads take brief turns; a thread that wants the core
  // takes turns of milliseconds.
  [[nodiscard]] static bool is_wanted_in_host() {
    if (--waits_until_look_ <= 0) [[unlikely]]
      count_turns();
    return is_wanted();
  }

 private:
  static constexpr double shortest_turn_s = 20e-6;
  static constexpr double longest_brief_turn_s = 500e-6;
  // A thread that wants the core for a while comes back within this time, and is then noticed again.
  static constexpr double remembered_for_s = 200e-3;

  // Decides whether a long yield means that the core is wanted. The cause may have been the hypervisor, or a
  // thread that ran for a moment only, such as offbeat's own. A thread that wants the core takes it again at
  // once. If the kernel thinks that this thread has had its share for now, it soon comes back for another
  // turn of equal length.
  [[gnu::noinline]] static void judge_turn(double turn_s) {
    const long before = System::switches();
    System::yield();
    const double now = System::now_s();
    bool is_back = System::switches() != before;
    if (turn_s > longest_brief_turn_s) {
      is_back = is_back || (before != switches_at_turn_ && now - last_turn_s_ < longest_turn_s);
      last_turn_s_ = now;
      switches_at_turn_ = before;
    }
    if (is_back) wanted_until_s_ = now + remembered_for_s;
  }

  // Counts turns of other threads over a longer time, because short waits see such a turn only rarely. Kernel
  // threads take many turns, too, but brief ones, so the mean turn must be longer than those. Time asleep
  // counts as part of the turns.
  [[gnu::noinline]] static void count_turns() {
    waits_until_look_ = waits_between_looks;
    const double now = System::now_s();
    const long switches_now = System::switches();
    const long turns = switches_now - switches_;
    const bool is_first = counted_since_s_ == 0;
    const double counted_s = now - counted_since_s_;
    if (!is_first && turns < fewest_turns && counted_s < fewest_turns * longest_turn_s) return;
    const double processor_now_s = System::processor_s();
    const double taken_s = counted_s - (processor_now_s - processor_s_);
    const auto length_of_turns = [&](double turn_s) { return static_cast<double>(turns) * turn_s; };
    if (!is_first && turns >= fewest_turns && counted_s < length_of_turns(longest_turn_s) &&
        taken_s > length_of_turns(longest_brief_turn_s))
      wanted_until_s_ = now + remembered_for_s;
    switches_ = switches_now;
    counted_since_s_ = now;
    processor_s_ = processor_now_s;
  }
  static constexpr int waits_between_looks = 16;  // a look takes 0.3 us
  static constexpr long fewest_turns = 4;
  static constexpr double longest_turn_s = 20e-3;

  static inline thread_local int waits_until_look_ = 1;
  static inline thread_local double counted_since_s_ = 0;
  static inline thread_local double processor_s_ = 0;  // at counted_since_s_
  static inline thread_local double wanted_until_s_ = 0;
  static inline thread_local double last_turn_s_ = 0;
  static inline thread_local long switches_at_turn_ = 0;
  static inline thread_local long switches_ = 0;
};
using WantedCore = WantedCoreOf<ThreadSystemCalls>;

}  // namespace offbeat
