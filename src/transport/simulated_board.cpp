// SPDX-License-Identifier: BSD-3-Clause
#include "transport/simulated_board.hpp"

#include <algorithm>
#include <utility>

#include "transport/simulated.hpp"

namespace offbeat {

SimulatedBoard::SimulatedBoard(Simulator& simulator, std::vector<int> ranks, std::size_t window_bytes,
                               bool phantom)
    : simulator_(simulator), ranks_(std::move(ranks)), shape_{static_cast<int>(ranks_.size()), window_bytes} {
  this->phantom = phantom;
  const std::size_t bytes = phantom ? shape_.windows_offset() : shape_.total_bytes();
  memory_.resize((bytes + sizeof(Page) - 1) / sizeof(Page));
}

void SimulatedBoard::clear() {
  std::fill(memory_.begin(), memory_.end(), Page{});
  boards_.clear();
  for (int member = 0; member < shape_.ranks; ++member) {
    boards_.emplace_back(memory_.data(), shape_, member, Patience{}).simulation = this;
  }
  paused_.clear();
}

void SimulatedBoard::touch(int member, std::coroutine_handle<> waiter) {
  simulator_.touch(rank_of(member), waiter);
}

void SimulatedBoard::pause(int member, std::coroutine_handle<> waiter) {
  paused_.push_back({rank_of(member), waiter});
}

void SimulatedBoard::wake() {
  for (const Paused& paused : paused_) simulator_.resume_at(simulator_.now(), paused.rank, paused.waiter);
  paused_.clear();
}

void SimulatedBoard::list_waiting(std::vector<int>& ranks) const {
  for (const Paused& paused : paused_) ranks.push_back(paused.rank);
}

}  // namespace offbeat
