// SPDX-License-Identifier: BSD-3-Clause
#include "node/board.hpp"

namespace offbeat {
namespace {

constexpr std::size_t page = 4096;

constexpr std::size_t round_up(std::size_t bytes, std::size_t unit) {
  return (bytes + unit - 1) / unit * unit;
}

}  // namespace

static_assert(sizeof(Board::InlineSlot) == BoardShape::inline_bytes + BoardShape::line);
static_assert(offsetof(Board::InlineSlot, data) <= 16,
              "a short vector is in the line of its sequence number");

// Two words more than ranks: see Board::Step.
std::size_t BoardShape::step_bytes() const { return (static_cast<std::size_t>(ranks) + 2) * line; }
std::size_t BoardShape::arrivals_bytes() const {
  return round_up((static_cast<std::size_t>(ranks) + 1) * sizeof(Board::Word), line);
}
std::size_t BoardShape::broken_offset() const { return bell_offset() + sizeof(Bell); }
std::size_t BoardShape::arrivals_offset() const { return broken_offset() + line; }
std::size_t BoardShape::steps_offset() const {
  return round_up(arrivals_offset() + 2 * arrivals_bytes(), page);
}
std::size_t BoardShape::windows_offset() const {
  return steps_offset() + round_up(2 * most_chunks() * step_bytes(), page);
}
std::size_t BoardShape::total_bytes() const {
  return windows_offset() + static_cast<std::size_t>(ranks) * 2 * window_bytes;
}

}  // namespace offbeat
