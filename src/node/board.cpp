// SPDX-License-Identifier: BSD-3-Clause
#include "node/board.hpp"

#include <sched.h>

#include <algorithm>

#include "node/host_turns.hpp"

namespace offbeat {
namespace {

constexpr std::size_t round_up(std::size_t bytes, std::size_t unit) {
  return (bytes + unit - 1) / unit * unit;
}

}  // namespace

static_assert(sizeof(Board::Presence) == BoardShape::line);
static_assert(BoardShape::records_of_rank * sizeof(Board::Record) ==
              BoardShape::lines_of_records * BoardShape::line);
static_assert(sizeof(Bell) == BoardShape::line);
static_assert(sizeof(Board::ChannelWords) == BoardShape::channel_words_bytes);
static_assert(sizeof(Board::TreeLine) == BoardShape::line);
static_assert(sizeof(Board::InlineSlot) == BoardShape::inline_bytes + BoardShape::line);
static_assert(sizeof(Board::ShortSlot) == BoardShape::lines_of_short_slot * BoardShape::line);
static_assert(offsetof(Board::InlineSlot, data) <= 16,
              "a short vector is in the line of its sequence number");

std::size_t BoardShape::round_words_bytes() const {
  return round_up((static_cast<std::size_t>(ranks) + 1) * sizeof(Board::Word), line);
}
std::size_t BoardShape::stages_offset() const {
  const std::size_t reasons = compares_calls ? static_cast<std::size_t>(ranks) : 0;
  return in_whole_pages(failure_texts_offset() + reasons * failure_text_bytes);
}
std::size_t BoardShape::steps_in_stage() const {
  if (!compares_calls) return in_whole_pages(records_in_stage());
  const auto pairs = static_cast<std::size_t>(ranks) * static_cast<std::size_t>(ranks);
  return in_whole_pages(alltoallv_lengths_in_stage() + records_of_rank * pairs * sizeof(Board::Word));
}
std::size_t BoardShape::relay_words_in_stage() const {
  return steps_in_stage() + in_whole_pages(2 * most_chunks() * step_bytes());
}
std::size_t BoardShape::windows_in_stage() const {
  return relay_words_in_stage() + in_whole_pages(2 * static_cast<std::size_t>(ranks) * most_chunks() * line);
}
std::size_t BoardShape::channels_offset() const {
  return stages_offset() + static_cast<std::size_t>(stages) * stage_bytes();
}
std::size_t BoardShape::rings_offset() const {
  const auto pairs = ring_bytes == 0 ? 0 : static_cast<std::size_t>(ranks) * static_cast<std::size_t>(ranks);
  return channels_offset() + in_whole_pages(pairs * channel_words_bytes);
}
std::size_t BoardShape::total_bytes() const {
  return rings_offset() + static_cast<std::size_t>(ranks) * static_cast<std::size_t>(ranks) * ring_bytes;
}

// The wait is short: the gate is closed only while some pages are given back, and the rank that closed it
// waits for no other rank. So this wait throws nothing and gives the host no turn, which a thread of offbeat
// could not give. If that rank has died, this one opens the gate instead. Pages that were given back only in
// part do no harm. The call then waits for the dead rank, as for any other that has died.
void Board::wait_at_gate() const noexcept {
  constexpr std::uint64_t between_looks_us = 100'000;
  std::uint64_t last_look = ProcessorClock::now();
  for (;;) {
    std::uint64_t seen = gate().load(std::memory_order_seq_cst);
    if (!is_closed(seen)) return;
    sched_yield();
    const std::uint64_t now = ProcessorClock::now();
    if (has_died.call == nullptr || now - last_look < between_looks_us * ProcessorClock::ticks_per_us())
      continue;
    last_look = now;
    if (has_died.call(has_died.state, closer_of(seen)))
      gate().compare_exchange_strong(seen, gate_open, std::memory_order_seq_cst);
  }
}

bool Board::all_have_begun(RoundNumber& number, std::uint64_t round) const {
  if (number.begun_by_all >= round) return true;
  std::uint64_t least = number.present;
  for (int other = 0; other < size; ++other) {
    if (other == rank) continue;
    const Mark begun((signs(other).*number.sign).load(std::memory_order_acquire));
    if (begun.round < round) return false;
    least = std::min(least, begun.round);
  }
  number.begun_by_all = least;
  return true;
}

// Slots and windows of the present round and the one before suffice. A rank that is behind and gives data has
// written its last words in one of these; one that takes data sees those of the others. Each algorithm has
// words for the first chunk.
bool Board::shows_other_collective() const {
  const auto read = [](const Word& word) { return word.load(std::memory_order_relaxed); };
  const auto is_other_slot = [&](std::uint64_t tag, int owner) {
    const InlineSlot& slot = inline_slot(tag, owner);
    bool is_other = sequence.contradicts(read(slot.sequence)) ||
                    sequence.contradicts(read(slot.steps) >> bits_of_steps) ||
                    (shape_.short_slots() > 0 && sequence.contradicts(read(short_slot(tag, owner).sequence)));
    for (int level = 0; level < BoardShape::tree_levels; ++level)
      is_other = is_other || sequence.contradicts(read(tree_line(tag, owner, level).sequence));
    return is_other;
  };
  const auto is_other_window = [&](std::uint64_t tag) {
    const auto is_other = [&](const Word& word) { return round.contradicts(Mark(read(word)).round); };
    bool found = false;
    for (int index = 0; index < shape_.words_per_step(); ++index)
      found = found || is_other(step(tag, 0).word(index));
    for (int owner = 0; owner < size; ++owner) found = found || is_other(relay_word(tag, owner, 0));
    return found;
  };
  for (const std::uint64_t tag : sequence.last_tags()) {
    for (int other = 0; other < size; ++other) {
      if (other != rank && is_other_slot(tag, other)) return true;
    }
  }
  // Nobody may touch windows that were never used: they have no memory yet. A round may need none.
  const auto round_tags = round.last_tags();
  const bool has_used_windows = read(uses(rank).begun) > 0 || read(uses(rank).without_windows) == 0;
  return round_tags[0] != 0 && has_used_windows && shape_.most_chunks() > 0 &&
         std::ranges::any_of(round_tags, is_other_window);
}

bool Board::is_between_uses(int stage) const {
  const auto of = [&](int owner) -> const UseCounts& {
    return uses_of_stage(stage_at(stage), shape_, owner);
  };
  std::uint64_t number = 0;
  for (int owner = 0; owner < size; ++owner) {
    const std::uint64_t begun = of(owner).begun.load(std::memory_order_seq_cst);
    // Read after `begun`, so that it has all that the rank counted before it began.
    const std::uint64_t without = of(owner).without_windows.load(std::memory_order_relaxed);
    if (owner == 0) number = without + begun;
    if (without + begun != number || of(owner).ended.load(std::memory_order_acquire) != begun) return false;
  }
  return true;
}

}  // namespace offbeat
