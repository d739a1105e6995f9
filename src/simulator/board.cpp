// SPDX-License-Identifier: BSD-3-Clause
#include "simulator/board.hpp"

#include <algorithm>
#include <functional>
#include <utility>

#include "simulator/simulator.hpp"

namespace offbeat {
namespace {

constexpr std::size_t bytes_of_part = BoardShape::smallest_chunk;

}  // namespace

SimulatedBoard::SimulatedBoard(Simulator& simulator, std::vector<int> ranks, std::size_t window_bytes,
                               bool phantom)
    : simulator_(simulator),
      ranks_(std::move(ranks)),
      shape_{static_cast<int>(ranks_.size()), window_bytes},
      memory_(shape_.total_bytes()) {
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
  const auto from = static_cast<std::uint32_t>(levels.index(owner, member) + 1);
  for (Use& use : uses_of(data, bytes)) use.readers = std::max(use.readers, from);
  const Level& level = levels.between(owner, member);
  const double now = simulator_.now();
  const double gap = simulator_.beyond_cache(simulator_.machine_.line_gap, BoardShape::line);
  ExclusivePort& port = line_ports_[static_cast<std::size_t>(owner)];
  const double first_leaves = std::max(now, port.free_at);
  const double last_leaves = port.pass(now, static_cast<double>(lines) * gap) - gap;
  if (lines == 1) {  // a single line does not wait behind many
    simulator_.resume_at(last_leaves + level.line, rank_of(member), waiter);
    return true;
  }
  // The rank goes on with the first line, and works with the others while they arrive.
  SimulatedTransport& reader = simulator_.rank(rank_of(member));
  const double further = level.per_byte * static_cast<double>((lines - 1) * BoardShape::line);
  const double passed = levels.pass(reader.node_, owner, member, now, static_cast<double>(bytes));
  const double last_comes = std::max({last_leaves, reader.fetches_.pass(now, further), passed}) + level.line;
  reader.fetched_until_ = std::max(reader.fetched_until_, last_comes);
  simulator_.resume_at(first_leaves + level.line, rank_of(member), waiter);
  return true;
}

std::span<SimulatedBoard::Use> SimulatedBoard::uses_of(const void* data, std::size_t bytes) {
  const auto* const base = static_cast<const std::byte*>(memory_.data());
  const auto* const begin = static_cast<const std::byte*>(data);
  constexpr std::less<const std::byte*> before;
  if (begin == nullptr || bytes == 0 || before(begin, base)) return {};
  const auto offset = static_cast<std::size_t>(begin - base);
  if (offset + bytes > shape_.total_bytes()) return {};
  const std::size_t first = offset / bytes_of_part;
  const std::size_t last = (offset + bytes - 1) / bytes_of_part + 1;
  if (uses_.size() < last) uses_.resize(last);
  return std::span(uses_).subspan(first, last - first);
}

double SimulatedBoard::put_seconds(int member, const void* data, std::size_t bytes) {
  const std::span<const Use> uses = uses_of(data, bytes);
  if (uses.empty()) return 0;
  const Levels& levels = simulator_.levels_;
  double all = 0;
  for (const Use& use : uses) {
    if (use.writer < 0) {
      all += simulator_.put_line();
      continue;
    }
    const std::size_t writer = use.writer == member ? 0 : levels.index(use.writer, member) + 1;
    const std::size_t from = std::max<std::size_t>(writer, use.readers);
    if (from == 0) continue;
    const double of_level = levels[from - 1].per_byte * static_cast<double>(BoardShape::line);
    all += std::max(simulator_.machine_.put_line, of_level);
  }
  const double lines = static_cast<double>(bytes) / static_cast<double>(BoardShape::line);
  return lines * all / static_cast<double>(uses.size());
}

void SimulatedBoard::note_put(int member, const void* data, std::size_t bytes) {
  if (simulator_.levels_.empty()) return;
  for (Use& use : uses_of(data, bytes)) use = {.writer = member};
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
