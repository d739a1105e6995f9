// SPDX-License-Identifier: BSD-3-Clause
// BegunTimer times the calls of one group that proceed by themselves: the program begins them, and may
// compute meanwhile.
//
// A thread that has begun such a call may wait for its end anywhere, also in a future of PyTorch. So this
// asks the system how long that thread has computed since then. The rest of the time it was blocked. Time
// inside the group's own waits, which spin, counts as blocked, too. If several calls are under way, each gets
// the time since the one before it has ended. What was blocked before the last rank came to the call is
// waiting.
//
// A call whose caller does nothing but wait for it counts from its beginning to its end.
#pragma once

#include <time.h>

#include <array>
#include <atomic>
#include <cstdint>
#include <memory>
#include <utility>

#include "base/spin_lock.hpp"
#include "collectives/algorithm.hpp"
#include "node/call_counters.hpp"

namespace offbeat {

class NodeBoard;

class BegunTimer {
 public:
  // `is_on` is false if calls are only counted.
  BegunTimer(std::shared_ptr<CommunicatorCounters> counters, bool is_on)
      : counters_(std::move(counters)), is_on_(is_on) {}

  // A moment, and how long a thread has computed by then.
  struct Moment {
    std::uint64_t ticks = 0;   // of ProcessorClock
    std::int64_t ns = 0;       // of monotonic_ns()
    std::int64_t busy_ns = 0;  // of the thread that has begun the call
  };
  struct BegunCall {
    Collective collective{};
    bool is_blocking = false;  // the caller waits for its end
    clockid_t thread = 0;      // the clock of the thread that has begun it
    Moment began;              // ticks 0: it is not timed
  };

  [[nodiscard]] BegunCall begin(Collective collective, bool is_blocking);
  // Ends a call, which is call `number` of the group. Call this while you hold the lock of the operations.
  void end(const BegunCall& call, std::uint64_t number, NodeBoard& board, const Expression* ran);
  // What a look at a call under way finds.
  struct Look {
    std::int64_t blocked_ns = 0;  // for how long it has blocked its caller
    bool is_blocked = false;      // whether the caller was blocked for most of the time since the look before
  };
  // `last` is the moment of the look before; it becomes that of this one.
  [[nodiscard]] Look look_at(const BegunCall& call, Moment& last);
  // Forgets a call that has failed.
  void forget(const BegunCall& call);
  // Lets readers of the counters know for how long call `number` has blocked its caller. Returns false if the
  // caller waits for an earlier call.
  bool show_awaited(const BegunCall& call, std::uint64_t number, std::int64_t blocked_ns);
  // Does so at once if a thread of the program is in a wait of the group. The time follows with the next
  // look. Makes no system call.
  void show_awaited_in_wait(const BegunCall& call, std::uint64_t number) {
    if (!is_in_wait_.load(std::memory_order_relaxed)) return;
    const std::uint64_t shown = counters_->awaited_number.value();
    if (shown == 0 || shown > number) show_awaited(call, number, 0);
  }
  // Takes back what show_awaited() has said of call `number`, whose caller goes on.
  void hide_awaited(std::uint64_t number) {
    if (counters_->awaited_number.value() == number && !is_in_wait_.load(std::memory_order_relaxed))
      counters_->awaited_number.set(0);
  }

  // A thread holds this while it adds to the times of the group.
  [[nodiscard]] SpinLock& times_lock() { return times_lock_; }

  // Exists in a thread while it waits for calls of the group, which may be freed meanwhile.
  class Wait {
   public:
    explicit Wait(BegunTimer& timer) : timer_(timer), is_outermost_(timer.begin_wait()) {}
    Wait(const Wait&) = delete;
    Wait& operator=(const Wait&) = delete;
    ~Wait() {
      if (is_outermost_) timer_.end_wait();
    }

   private:
    BegunTimer& timer_;
    const bool is_outermost_;
  };

 private:
  // The waits of the thread that has waited last.
  struct Waits {
    clockid_t thread = 0;
    std::int64_t began_cpu_ns = 0;
    std::int64_t cpu_ns = 0;  // that earlier waits have taken
  };

  [[nodiscard]] Moment now(clockid_t thread);
  // Returns when the time of a call begins: when it began, or when the last call that has ended did.
  [[nodiscard]] Moment start_of(const BegunCall& call);
  [[nodiscard]] bool begin_wait();
  void end_wait();

  const std::shared_ptr<CommunicatorCounters> counters_;  // a wait may end after the group
  const bool is_on_;
  SpinLock times_lock_;
  std::atomic<bool> is_in_wait_{false};  // that thread; changes while lock_ is held
  SpinLock lock_;                        // guards the next two members
  Waits waits_;
  BegunCall last_ended_;  // `began` is when it ended
  std::array<const Expression*, collectives.size()> shown_{};
};

}  // namespace offbeat
