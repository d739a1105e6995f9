// SPDX-License-Identifier: BSD-3-Clause
// Patience decides how a rank waits for another rank's word. It spins, then yields, then sleeps.
//
// A rank with a core of its own spins, because the awaited rank is a cache line transfer away. Ranks that
// share cores yield at once if the awaited rank needs this core. If it has another core, they first spin for
// as long as that core may take to switch ranks. Otherwise the cores would take turns: one waits while the
// other switches ranks. A switch takes one or two microseconds, which is nearly all of the time of a small
// collective. In a long wait a rank sleeps until the bell rings, unless the host has messages of the program
// to move. A rank with a core of its own also sleeps if other threads want that core.
#pragma once

#include <linux/futex.h>
#include <sched.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <climits>
#include <cstdint>
#include <utility>

#include "node/host_turns.hpp"
#include "node/wanted_core.hpp"

namespace offbeat {

// Delays a spinning thread. Limits below count these delays, so their order of magnitude must be that of
// x86's PAUSE. AArch64's `yield` delays nothing on most cores. `isb` waits until all earlier instructions are
// done, about as long as PAUSE: https://github.com/rust-lang/rust/pull/84725
inline void relax() {
#if defined(__x86_64__)
  __builtin_ia32_pause();  // without <immintrin.h>, which takes a second to compile
#elif defined(__aarch64__)
  asm volatile("isb");
#endif
}

// Wakes the sleeping ranks of a board. It is in shared memory, on a cache line of its own, and zero at the
// beginning.
//
// A waiter hangs the bell up, looks for its word once more, and sleeps. An announcer writes the word and
// rings. There is no fence between the write and the ring, because it would cost more than all the rest of
// the announcement. So the announcer may look at the bell before its word is visible, and miss a bell that is
// hung up in these nanoseconds. Therefore every sleep has a limit: a missed bell costs a nap (see Patience),
// not a hang. If no rank sleeps, ringing is a load from a line that every core has and none writes.
class alignas(64) Bell {
 public:
  void ring() {
    if (is_up_.load(std::memory_order_relaxed) != 0) [[unlikely]]
      wake();
  }
  // This is an exchange because a locked instruction also keeps the caller's next look from happening too
  // early.
  void hang_up() { is_up_.exchange(1, std::memory_order_seq_cst); }
  // Sleeps for at most `at_most_ns`, less than a second. Returns true if the bell has rung since hang_up().
  bool sleep(std::int64_t at_most_ns) {
    const timespec limit{0, static_cast<long>(at_most_ns)};
    return syscall(SYS_futex, &is_up_, FUTEX_WAIT, 1, &limit, nullptr, 0) == 0 || errno == EAGAIN;
  }

 private:
  // Takes the bell down first. Only one of many announcements then makes the system call, until a rank sleeps
  // again.
  [[gnu::noinline]] void wake() {
    is_up_.store(0, std::memory_order_relaxed);
    syscall(SYS_futex, &is_up_, FUTEX_WAKE, INT_MAX, nullptr, nullptr, 0);
  }
  std::atomic<std::uint32_t> is_up_{0};
};

// A function to call when a wait gets suspiciously long, and again when it ends after all.
struct Stall {
  std::int64_t after_ns = 0;  // 0: never
  void (*call)(void* state, std::int64_t waited_ns, bool over) = nullptr;
  void* state = nullptr;
};

// A function that sleeps until messages may have come in, but for at most `at_most_ns`.
struct SleepCall {
  void (*call)(void* state, std::int64_t at_most_ns) = nullptr;
  void* state = nullptr;

  void operator()(std::int64_t at_most_ns) const { call(state, at_most_ns); }
};

struct Patience {
  bool shares_cores = false;
  bool yields_to_threads = true;  // lets other threads run even if ranks do not share cores
  // How long ranks that share cores yield before they sleep. A wake-up costs the late rank a system call, and
  // the sleeper some 10 us.
  std::int64_t sleep_after_ns = 10 * ns_per_ms;
  Bell* bell = nullptr;  // null: nothing rings, and the waiter itself asks the host at each look
  TurnCall turn{};
  Stall stall{};
  SleepCall sleep{};  // ends when messages come in; it may be given only if there is no bell

  // One wait. Make a new one for each word that is waited for.
  class Wait {
   public:
    explicit Wait(const Patience& patience) : patience_(patience) {}
    Wait(const Wait&) = delete;
    Wait& operator=(const Wait&) = delete;
    ~Wait() {
      if (is_stall_reported_) patience_.stall.call(patience_.stall.state, monotonic_ns() - since_ns_, true);
    }
    // Returns true at the first call. Callers that wait in their own way (BoardWaiters) use this.
    [[nodiscard]] bool begins() { return !std::exchange(has_begun_, true); }
    // Waits a moment. `core_is_wanted` says whether an awaited rank may need this core; it counts only if
    // ranks share cores.
    void pause(bool core_is_wanted = true) {
      if (++spins_ == spins_on_wanted_core && !patience_.shares_cores && WantedCore::is_wanted()) [[unlikely]]
        spins_ = spins_when_alone;  // skips the rest of the spinning
      if (spins_ <= (!patience_.shares_cores ? spins_on_own_core()
                     : core_is_wanted        ? 0
                                             : spins_when_sharing)) {
        relax();
        if (spins_ % spins_between_turns == 0) give_turn_if(turns_in_waits::are_due_in_spin());
      } else {
        pause_long();
      }
    }

   private:
    static constexpr std::uint64_t spins_when_sharing = 80;  // about 2 us
    static constexpr std::uint64_t spins_when_alone = 4000;  // about 100 us
    // About 10 us, which is how long a wake-up takes.
    static constexpr std::uint64_t spins_on_wanted_core = 400;
    // The number of looks at the host's messages before a longer pause. A look takes 0.1 to 2 us, depending
    // on host MPI and network.
    static constexpr std::uint64_t looks_when_alone = 64;
    static constexpr std::uint64_t look_interval = 64;
    static constexpr std::uint64_t yield_interval = 32;
    static constexpr std::uint64_t host_yield_interval = 8;
    // The number of spins between two checks whether the host's next turn is due. A small collective whose
    // ranks arrive together waits for less than that, so it gives no turn in the middle.
    static constexpr std::uint64_t spins_between_turns = 32;
    // The time since the wait began, or since messages last came in, divided by the length of a nap. The two
    // bounds limit a nap. A nap delays the program's other messages and, without a bell, also the awaited
    // one. The longest nap is also the cost of a missed bell.
    static constexpr std::int64_t nap_with_bell = 16;
    static constexpr std::int64_t nap_without_bell = 100;
    static constexpr std::int64_t shortest_nap_ns = 50 * ns_per_us;
    // How long a rank with a core of its own looks for messages before it sleeps until they come in. That is
    // about twice what a short message takes.
    static constexpr std::int64_t looks_before_sleep_ns = 100 * ns_per_us;
    static constexpr std::int64_t longest_nap_ns = ns_per_ms;
    // A burst may report messages that do not exist, because a rank that shares its core is interrupted and
    // then slow. So one such burst outweighs a few quiet ones, but only a second one soon after it counts as
    // traffic.
    static constexpr int signs_per_burst = 3;
    static constexpr int message_signs_of_traffic = 2 * signs_per_burst;
    static constexpr int most_message_signs = 4 * signs_per_burst;

    [[nodiscard]] bool polls_host() const { return patience_.bell == nullptr; }
    [[nodiscard]] std::uint64_t spins_on_own_core() const {
      return polls_host() ? looks_when_alone : spins_when_alone;
    }
    void give_turn_if(bool is_due) {
      if (is_due) [[unlikely]]
        give_turn();
    }
    // This function is not inlined, so that a short wait and the code around it stay in registers.
    [[gnu::noinline]] void give_turn() { turns_in_waits::give(patience_.turn); }

    void look_around(std::int64_t now) {
      if (since_ns_ == 0) since_ns_ = awake_since_ns_ = now;
      if (patience_.stall.after_ns > 0 && !is_stall_reported_ && now - since_ns_ > patience_.stall.after_ns) {
        is_stall_reported_ = true;
        patience_.stall.call(patience_.stall.state, now - since_ns_, false);
      }
    }

    // Looks a few times, and then sleeps until messages come in.
    void sleep_until_messages() {
      const std::int64_t now = monotonic_ns();
      look_around(now);
      if (!patience_.shares_cores && now - since_ns_ < looks_before_sleep_ns && !WantedCore::is_wanted())
        return relax();
      give_turn_if(turns_in_waits::are_due());
      patience_.sleep(std::clamp((now - since_ns_) / nap_without_bell, shortest_nap_ns, longest_nap_ns));
    }

    [[gnu::noinline]] void pause_long() {
      if (patience_.sleep.call != nullptr) return sleep_until_messages();
      if (may_sleep_) {
        if (burst_.is_over()) {
          nap();
        } else {
          look_for_messages();
        }
        return;
      }
      ++long_pauses_;
      if (long_pauses_ % look_interval == 0) {
        const std::int64_t now = monotonic_ns();
        look_around(now);
        may_sleep_ = patience_.shares_cores && now - awake_since_ns_ >= patience_.sleep_after_ns;
      }
      // The guess about cores may be wrong, so even a spinning rank yields now and then.
      if (patience_.shares_cores) {
        sched_yield();
        give_turn_if(turns_in_waits::are_due());
        spins_ = 0;
      } else {
        if (!patience_.yields_to_threads) {
          long_pauses_ % yield_interval == 0 ? void(sched_yield()) : relax();
        } else if (long_pauses_ % (polls_host() ? host_yield_interval : yield_interval) == 1) {
          may_sleep_ = WantedCore::is_wanted();
          if (!may_sleep_) WantedCore::yield();
        } else {
          relax();
        }
        give_turn_if(turns_in_waits::are_due_in_spin());
      }
    }

    void nap() {
      if (patience_.bell != nullptr && !bell_is_up_) {
        patience_.bell->hang_up();
        bell_is_up_ = true;
        return;  // the caller looks for its word once more
      }
      const std::int64_t now = monotonic_ns();
      look_around(now);
      patience_.turn();
      const std::int64_t part = patience_.bell != nullptr ? nap_with_bell : nap_without_bell;
      const std::int64_t quiet_since_ns = std::max(since_ns_, last_message_ns_);
      const std::int64_t nap_ns = std::clamp((now - quiet_since_ns) / part, shortest_nap_ns, longest_nap_ns);
      if (patience_.bell == nullptr) {
        const timespec length{0, static_cast<long>(nap_ns)};
        nanosleep(&length, nullptr);
        resumed_at_ns_ = monotonic_ns();
      } else {
        bell_is_up_ = false;
        if (patience_.bell->sleep(nap_ns)) {
          // Another rank has made progress, so the next look should come soon.
          may_sleep_ = false;
          awake_since_ns_ = monotonic_ns();
          spins_ = 0;
          return;
        }
      }
      burst_.restart();
    }

    // Looks for messages in a burst of turns after a nap. A rank that has sent a message to a sleeper waits
    // for the answer before it sends the next one. So a nap may delay the first of many messages, but not
    // each of them.
    void look_for_messages() {
      const std::int64_t began_ns = patience_.bell != nullptr ? monotonic_ns() : resumed_at_ns_;
      if (patience_.bell != nullptr) patience_.turn();
      const std::int64_t now = monotonic_ns();
      burst_.add(now - began_ns);
      if (burst_.is_over()) {
        look_around(now);
        message_signs_ = std::clamp(message_signs_ + (burst_.messages_came_in() ? signs_per_burst : -1), 0,
                                    most_message_signs);
        if (message_signs_ >= message_signs_of_traffic) last_message_ns_ = now;
        if (message_signs_ > 0) burst_.restart();
      }
      // A rank that yields to a computing thread gets the core back late, so this happens outside the
      // measured time.
      patience_.shares_cores ? void(sched_yield()) : relax();
      if (patience_.bell == nullptr) resumed_at_ns_ = monotonic_ns();
    }

    const Patience& patience_;
    std::uint64_t spins_ = 0;
    std::uint64_t long_pauses_ = 0;
    std::int64_t since_ns_ = 0;  // when the wait began; 0: it is not long yet
    std::int64_t awake_since_ns_ = 0;
    std::int64_t last_message_ns_ = 0;  // when messages last came in, by the bursts; 0: never
    std::int64_t resumed_at_ns_ = 0;    // when the last nap ended; without a bell only
    TurnBurst burst_;
    int message_signs_ = 0;  // evidence that messages come in
    bool may_sleep_ = false;
    bool bell_is_up_ = false;
    bool is_stall_reported_ = false;
    bool has_begun_ = false;
  };
};

}  // namespace offbeat
