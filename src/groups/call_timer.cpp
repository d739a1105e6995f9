// SPDX-License-Identifier: BSD-3-Clause
#include "groups/call_timer.hpp"

#include <algorithm>
#include <bit>
#include <mutex>
#include <string>

#include "base/error.hpp"
#include "groups/node_board.hpp"
#include "node/host_turns.hpp"

namespace offbeat {
namespace {

constexpr std::uint64_t us_between_samples = 320;
constexpr std::uint64_t most_calls_for_each_sample = 128;  // more would see a slower program too late
constexpr std::uint64_t calls_between_looks = 64;
// What a rank spends in a call before it looks for the last rank: 2 us for each rank of the node, which is
// some 30 times as long as the look.
constexpr std::uint64_t least_us_for_each_rank = 2;

}  // namespace

void CallTimer::begin_timed(CollectiveCounters& mine, std::uint64_t number, NodeBoard* board) {
  const std::uint64_t now = ProcessorClock::now();
  weight_ = calls_for_each_sample_;
  number_ = number;
  began_ = now;
  mine.since.set(now);
  if (board != nullptr) board->show_arrival(number, now);
  if (number - looked_number_ >= calls_between_looks) choose_samples(now, number);
}

void CallTimer::choose_samples(std::uint64_t now, std::uint64_t number) {
  if (looked_ != 0 && now > looked_) {
    const std::uint64_t ticks_between = us_between_samples * ProcessorClock::ticks_per_us();
    const std::uint64_t calls = (number - looked_number_) * ticks_between / (now - looked_);
    // A power of two, so that ranks mostly have the same.
    calls_for_each_sample_ = std::bit_floor(std::clamp<std::uint64_t>(calls, 1, most_calls_for_each_sample));
    timed_up_to_ = each / calls_for_each_sample_;
  }
  looked_ = now;
  looked_number_ = number;
}

void CallTimer::end_timed(Collective collective, NodeBoard* board, const Expression* ran) {
  CollectiveCounters& mine = of(collective);
  const std::uint64_t now = ProcessorClock::now();
  std::unique_lock<SpinLock> guard;
  if (lock_ != nullptr) guard = std::unique_lock(*lock_);
  // The clock may jump when the thread changes cores.
  add_blocked_call(mine, board, number_, began_, now > began_ ? now - began_ : 0, weight_);
  began_ = 0;
  show_algorithm(mine, shown_[index_of(collective)], ran);
}

void add_blocked_call(CollectiveCounters& mine, NodeBoard* board, std::uint64_t number, std::uint64_t began,
                      std::uint64_t spent, std::uint64_t weight) {
  mine.ticks.add(spent * weight);
  if (board == nullptr || spent < static_cast<std::uint64_t>(board->board().size) * least_us_for_each_rank *
                                      ProcessorClock::ticks_per_us())
    return;
  const auto last = board->last_arrival(number);
  if (!last) return;
  const std::uint64_t waited = last->ticks > began ? std::min(last->ticks - began, spent) : 0;
  mine.waiting_ticks.add(waited * weight);
  mine.add_wait(last->number, waited * weight, waited / ProcessorClock::ticks_per_us(),
                static_cast<std::uint32_t>(weight));
}

void show_algorithm(CollectiveCounters& mine, const Expression*& shown, const Expression* ran) {
  if (shown == ran) [[likely]]
    return;
  run_unless_out_of_memory(
      [&] { copy_text(ran != nullptr ? ran->canonical_text() : std::string(), mine.algorithm); });
  shown = ran;
}

}  // namespace offbeat
