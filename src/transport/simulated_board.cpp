// SPDX-License-Identifier: BSD-3-Clause
#include "transport/simulated_board.hpp"

#include <algorithm>
#include <set>

#include "transport/simulated.hpp"

namespace offbeat {

SimulatedBoard::SimulatedBoard(Simulator& simulator, const BoardShape& shape, bool phantom)
    : simulator_(simulator), shape_(shape) {
  this->phantom = phantom;
  const std::size_t bytes = phantom ? shape.windows_offset() : shape.total_bytes();
  memory_.resize((bytes + sizeof(Page) - 1) / sizeof(Page));
}

void SimulatedBoard::clear() {
  std::fill(memory_.begin(), memory_.end(), Page{});
  boards_.clear();
  for (int rank = 0; rank < shape_.ranks; ++rank) {
    boards_.emplace_back(memory_.data(), shape_, rank, Patience{}).simulation = this;
  }
  paused_.clear();
}

void SimulatedBoard::touch(int rank, std::coroutine_handle<> waiter) { simulator_.touch(rank, waiter); }

void SimulatedBoard::pause(int rank, std::coroutine_handle<> waiter) { paused_.push_back({rank, waiter}); }

void SimulatedBoard::wake() {
  for (const Paused& paused : paused_) simulator_.resume_at(simulator_.now(), paused.rank, paused.waiter);
  paused_.clear();
}

std::string SimulatedBoard::describe_waiting() const {
  if (paused_.empty()) return {};
  constexpr std::size_t most = 10;
  std::set<int> ranks;  // several coroutines of a rank may wait
  for (const Paused& paused : paused_) ranks.insert(paused.rank);
  std::string text = "\n  waiting on the board: rank";
  std::size_t named = 0;
  for (const int rank : ranks) {
    if (named == most) return text + " and " + std::to_string(ranks.size() - most) + " more";
    text += (named++ == 0 ? " " : ", ") + std::to_string(rank);
  }
  return text;
}

}  // namespace offbeat
