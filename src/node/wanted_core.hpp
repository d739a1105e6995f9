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
  [[nodiscard]] static std::int64_t now_ns() { return monotonic_ns(); }
  static void yield() { sched_yield(); }
  // Returns how often the kernel gave the core to another thread although this one wanted it. It does not
  // count what the hypervisor does.
  [[nodiscard]] static long switches() {
    rusage usage{};
    getrusage(RUSAGE_THREAD, &usage);
    return usage.ru_nivcsw;
  }
  // Returns the processor time of this thread.
  [[nodiscard]] static std::int64_t processor_ns() {
    timespec time{};
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
    return to_ns(time);
  }
};

// Knows whether other threads want the core of the calling thread.
template <class System>
class WantedCoreOf {
 public:
  // Yields, and learns from it: if no other thread can run, the call returns at once.
  static void yield() {
    const std::int64_t before = System::now_ns();
    System::yield();
    const std::int64_t now = System::now_ns();
    if (now - before > shortest_turn_ns) [[unlikely]]
      judge_turn(now - before);
  }
  [[nodiscard]] static bool is_wanted() {
    return wanted_until_ns_ > 0 && System::now_ns() < wanted_until_ns_;
  }
  // Returns true if the core is wanted, for a thread that waits inside the host MPI and therefore does not
  // yield. Call this before each such wait. Kernel threads take brief turns; a thread that wants the core
  // takes turns of milliseconds.
  [[nodiscard]] static bool is_wanted_in_host() {
    if (--waits_until_look_ <= 0) [[unlikely]]
      count_turns();
    return is_wanted();
  }

 private:
  static constexpr std::int64_t shortest_turn_ns = 20 * ns_per_us;
  static constexpr std::int64_t longest_brief_turn_ns = 500 * ns_per_us;
  // A thread that wants the core for a while comes back within this time, and is then noticed again.
  static constexpr std::int64_t remembered_for_ns = 200 * ns_per_ms;

  // Decides whether a long yield means that the core is wanted. The cause may have been the hypervisor, or a
  // thread that ran for a moment only, such as offbeat's own. A thread that wants the core takes it again at
  // once. If the kernel thinks that this thread has had its share for now, it soon comes back for another
  // turn of equal length.
  [[gnu::noinline]] static void judge_turn(std::int64_t turn_ns) {
    const long before = System::switches();
    System::yield();
    const std::int64_t now = System::now_ns();
    bool is_back = System::switches() != before;
    if (turn_ns > longest_brief_turn_ns) {
      is_back = is_back || (before != switches_at_turn_ && now - last_turn_ns_ < longest_turn_ns);
      last_turn_ns_ = now;
      switches_at_turn_ = before;
    }
    if (is_back) wanted_until_ns_ = now + remembered_for_ns;
  }

  // Counts turns of other threads over a longer time, because short waits see such a turn only rarely. Kernel
  // threads take many turns, too, but brief ones, so the mean turn must be longer than those. Time asleep
  // counts as part of the turns.
  [[gnu::noinline]] static void count_turns() {
    waits_until_look_ = waits_between_looks;
    const std::int64_t now = System::now_ns();
    const long switches_now = System::switches();
    const long turns = switches_now - switches_;
    const bool is_first = counted_since_ns_ == 0;
    const std::int64_t counted_ns = now - counted_since_ns_;
    if (!is_first && turns < fewest_turns && counted_ns < fewest_turns * longest_turn_ns) return;
    const std::int64_t processor_now_ns = System::processor_ns();
    const std::int64_t taken_ns = counted_ns - (processor_now_ns - processor_ns_);
    if (!is_first && turns >= fewest_turns && counted_ns < turns * longest_turn_ns &&
        taken_ns > turns * longest_brief_turn_ns)
      wanted_until_ns_ = now + remembered_for_ns;
    switches_ = switches_now;
    counted_since_ns_ = now;
    processor_ns_ = processor_now_ns;
  }
  static constexpr int waits_between_looks = 16;  // a look takes 0.3 us
  static constexpr long fewest_turns = 4;
  static constexpr std::int64_t longest_turn_ns = 20 * ns_per_ms;

  static inline thread_local int waits_until_look_ = 1;
  static inline thread_local std::int64_t counted_since_ns_ = 0;
  static inline thread_local std::int64_t processor_ns_ = 0;  // at counted_since_ns_
  static inline thread_local std::int64_t wanted_until_ns_ = 0;
  static inline thread_local std::int64_t last_turn_ns_ = 0;
  static inline thread_local long switches_at_turn_ = 0;
  static inline thread_local long switches_ = 0;
};
using WantedCore = WantedCoreOf<ThreadSystemCalls>;

}  // namespace offbeat
