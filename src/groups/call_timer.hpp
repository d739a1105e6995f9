// SPDX-License-Identifier: BSD-3-Clause
// CallTimer counts and times the calls of one communicator or group.
//
// If calls are far apart, it times each. If they are frequent, it times a part of them, which a hash of the
// call's number chooses, equally on all ranks: a timed call takes up to 0.8 us more. A timed call shows on
// the board when its rank came. A rank that spent long in a timed call compares these times when the call is
// over: what passed until the last rank came was waiting. The comparison reads a cache line of each rank, so
// a rank makes it only if it takes a small part of what the call took.
//
// Ranks of other nodes show nothing here. The wait for them counts as communication.
#pragma once

#include <array>
#include <cstdint>

#include "base/spin_lock.hpp"
#include "collectives/algorithm.hpp"
#include "node/call_counters.hpp"

namespace offbeat {

class NodeBoard;

class CallTimer {
 public:
  // `is_on` is false if calls are only counted. If another thread may also add times to these counters, both
  // hold the lock.
  CallTimer(CommunicatorCounters& counters, bool is_on, SpinLock* lock = nullptr)
      : counters_(&counters), lock_(lock), timed_up_to_(is_on ? each : 0) {}

  [[nodiscard]] CommunicatorCounters& counters() const { return *counters_; }
  [[nodiscard]] CollectiveCounters& of(Collective collective) const { return counters_->of(collective); }

  // Begins a blocking call, which is counted. `number` is positive, and equal on all ranks. `find_board()`
  // returns the board, or null.
  template <class FindBoard>
  void begin(Collective collective, std::uint64_t number, FindBoard&& find_board) {
    constexpr std::uint64_t golden_ratio = 0x9e3779b97f4a7c15;
    of(collective).since.set(1);
    if (number * golden_ratio <= timed_up_to_)
      begin_timed(of(collective), number, find_board());
    else
      began_ = 0;  // it may be that of a call that failed
  }
  // Ends a blocking call. `ran` is what it ran; null for the host's own choice.
  template <class FindBoard>
  void end(Collective collective, FindBoard&& find_board, const Expression* ran) {
    CollectiveCounters& mine = of(collective);
    mine.since.set(0);
    mine.blocking.increment();
    if (began_ != 0) end_timed(collective, find_board(), ran);
  }

 private:
  // The calls whose hash is up to this are timed.
  static constexpr std::uint64_t each = ~std::uint64_t{0};

  [[gnu::noinline]] void begin_timed(CollectiveCounters& mine, std::uint64_t number, NodeBoard* board);
  [[gnu::noinline]] void end_timed(Collective collective, NodeBoard* board, const Expression* ran);
  void choose_samples(std::uint64_t now, std::uint64_t number);

  CommunicatorCounters* counters_;
  SpinLock* const lock_;
  std::uint64_t timed_up_to_;
  std::uint64_t calls_for_each_sample_ = 1;
  std::uint64_t began_ = 0;  // when the present call began; 0: it is not timed
  std::uint64_t number_ = 0;
  std::uint64_t weight_ = 1;
  // The beginning of the calls by which the next samples are chosen.
  std::uint64_t looked_ = 0;
  std::uint64_t looked_number_ = 0;
  std::array<const Expression*, collectives.size()> shown_{};
};

// Adds a call that has kept its caller for `spent` ticks since `began`. It counts `weight` times.
void add_blocked_call(CollectiveCounters& mine, NodeBoard* board, std::uint64_t number, std::uint64_t began,
                      std::uint64_t spent, std::uint64_t weight);
// Writes the name of what a call ran, unless `shown` says that it is there.
void show_algorithm(CollectiveCounters& mine, const Expression*& shown, const Expression* ran);

}  // namespace offbeat
