// SPDX-License-Identifier: BSD-3-Clause
#include "simulator/board.hpp"

#include <algorithm>
#include <utility>

#include "simulator/simulator.hpp"

namespace offbeat {

SimulatedBoard::SimulatedBoard(Simulator& simulator, std::vector<int> ranks, std::size_t window_bytes,
                               bool phantom)
    : simulator_(simulator),
      ranks_(std::move(ranks)),
      shape_{static_cast<int>(ranks_.size()), window_bytes},
      memory_(phantom ? shape_.bytes_without_windows() : shape_.total_bytes()) {
  this->phantom = phantom;
}

void SimulatedBoard::clear() {
  memory_.clear();
  boards_.clear();
  for (int member = 0; member < shape_.ranks; ++member) {
    boards_.emplace_back(memory_.data(), shape_, member, Patience{}).simulation = this;
  }
  paused_.clear();
  line_ports_.assign(ranks_.size(), {});
  lines_read_.assign(ranks_.size(), 0);
  readers_.clear();
}

void SimulatedBoard::touch(int member, std::coroutine_handle<> waiter, std::size_t bytes) {
  const std::size_t lines = (bytes + BoardShape::line - 1) / BoardShape::line;
  const double further = simulator_.put_line() * static_cast<double>(std::max<std::size_t>(lines, 1) - 1);
  simulator_.touch(rank_of(member), waiter, further);
}

// Nobody knows which core has the line, so it is as far away as any.
void SimulatedBoard::exchange(int member, std::coroutine_handle<> waiter) {
  const bool is_free = simulator_.levels_.empty() || shape_.ranks == 1;
  simulator_.touch(rank_of(member), waiter,
                   is_free ? 0 : simulator_.levels_.between(0, shape_.ranks - 1).line);
}

void SimulatedBoard::pause(int member, std::coroutine_handle<> waiter, Awaited awaited) {
  paused_.push_back({rank_of(member), waiter, simulator_.now(), awaited});
}

bool SimulatedBoard::charge_fetch(int member, int owner, const void* data, std::size_t bytes,
                                  std::coroutine_handle<> waiter) {
  Levels& levels = simulator_.levels_;
  if (levels.empty() || owner == member || bytes == 0) return false;
  const std::size_t lines = (bytes + BoardShape::line - 1) / BoardShape::line;
  lines_read_[static_cast<std::size_t>(member)] += lines;
  if (data != nullptr) ++readers_[data];
  const Level& level = levels.between(owner, member);
  const double now = simulator_.now();
  const double gap = simulator_.beyond_cache(simulator_.network_.line_gap, BoardShape::line);
  const double further =
      simulator_.beyond_cache(level.per_byte, 1) * static_cast<double>((lines - 1) * BoardShape::line);
  ExclusivePort& port = line_ports_[static_cast<std::size_t>(owner)];
  double last_left = std::max(port.pass(now, static_cast<double>(lines) * gap) - gap, now + further);
  if (lines > 1) {  // a single line does not wait behind many
    const int node = simulator_.rank(rank_of(member)).node_;
    last_left = std::max(last_left, levels.pass(node, owner, member, now, static_cast<double>(bytes)));
  }
  simulator_.resume_at(last_left + level.line, rank_of(member), waiter);
  return true;
}

void SimulatedBoard::add_reads_to(SimulationResult& result) const {
  for (std::size_t member = 0; member < ranks_.size(); ++member)
    result.lines_read[static_cast<std::size_t>(ranks_[member])] = lines_read_[member];
  for (const auto& [data, readers] : readers_) result.most_readers = std::max(result.most_readers, readers);
}

void SimulatedBoard::wake(int toucher, std::size_t count) {
  const auto last = paused_.begin() + static_cast<std::ptrdiff_t>(count);
  const auto kept = std::remove_if(paused_.begin(), last, [&](const Paused& paused) {
    if (!paused.awaited.may_hold()) return false;
    simulator_.note_wait(paused.rank, paused.paused_since, toucher);
    simulator_.resume_at(simulator_.now(), paused.rank, paused.waiter);
    return true;
  });
  paused_.erase(kept, last);
}

void SimulatedBoard::list_waiting(std::vector<int>& ranks) const {
  for (const Paused& paused : paused_) ranks.push_back(paused.rank);
}

}  // namespace offbeat
