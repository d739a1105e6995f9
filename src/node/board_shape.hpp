// SPDX-License-Identifier: BSD-3-Clause
// BoardShape says where everything is on the board, as offsets into its memory that are equal on all ranks of
// a node.
//
// Layout: each part has its own cache lines or pages.
//
//   presence       ranks         the collective that a rank has reached, and its core
//   bell           1             wakes sleeping ranks (patience.hpp)
//   broken         1             the rank that failed, if any
//   gate           1             closed while the windows give their pages back
//   reasons        4 x ranks     why each rank cannot go on, as text, if calls are compared
//   stages         one for each collective that can be under way at once; each has
//     inline slots   2 x ranks     a sequence number and up to inline_bytes of data beside it
//     short slots    short_slots x ranks  the same for at most short_bytes, in collectives with a root
//     signs          ranks         how far a rank has come in its rounds
//     uses           ranks         how many collectives with and without windows a rank has made here
//     round words    2 x (ranks + 1)  words of an algorithm for a whole round
//     tree lines     2 x ranks x 8 short data for the children in a tree, a line for each level
//     records        4 x ranks     the last eight calls of each rank, if they are compared
//     pair lengths   8 x ranks^2   the length of each block of an alltoallv, likewise
//     steps          2 x chunks    how far each chunk is combined: words, each on its own line
//     relay words    2 x ranks x chunks  set if a rank has a chunk of a result, each on its own line
//     windows        ranks x 2     chunks that a rank puts for others to read
//   channel words  ranks^2       how far the sender and the receiver of each pair have come, if ranks send
//                                messages through rings
//   rings          ranks^2       the bytes that are under way between them, likewise
//
// Vectors are aligned as their elements require: a window begins at a multiple of the smallest chunk, and a
// chunk a whole number of elements after that.
//
// The kernel gives pages back as a whole. So what can be given back of a stage begins and ends with a page.
// Page sizes may differ between nodes, so nothing but offsets may depend on them.
//
// A line has 64 bytes, whatever the machine has. If its lines are longer (128 bytes on some Arm cores, 256 on
// A64FX), words of several ranks share one. That costs time, because a write takes the line from the others.
#pragma once

#include <cstddef>

namespace offbeat {

struct BoardShape {
  int ranks = 1;
  std::size_t window_bytes = 0;  // for each half of each rank; a multiple of smallest_chunk
  int stages = 1;
  bool compares_calls = false;    // there are records and pair lengths
  std::size_t ring_bytes = 0;     // a multiple of a line; 0: there are no channels and rings
  int most_short_slots = 32;      // for each rank; a power of two
  std::size_t page_bytes = 4096;  // of the kernel; a power of two

  static constexpr std::size_t inline_bytes = 4096;
  static constexpr std::size_t smallest_chunk = 4096;
  static constexpr std::size_t line = 64;
  static constexpr int lines_of_short_slot = 17;
  static constexpr std::size_t short_bytes = lines_of_short_slot * line - 16;  // beside a number
  static constexpr int tree_levels = 8;
  // Up to this many ranks, a rank looks at the slots or windows of all others. More ranks use trees, but not
  // in an alltoall, where every rank needs a block from each other one.
  static constexpr int most_ranks_without_tree = 16;

  [[nodiscard]] std::size_t most_chunks() const { return window_bytes / smallest_chunk; }
  [[nodiscard]] std::size_t bytes_of_lines(int count) const { return static_cast<std::size_t>(count) * line; }
  [[nodiscard]] std::size_t bell_offset() const { return bytes_of_lines(ranks); }
  [[nodiscard]] std::size_t broken_offset() const { return bell_offset() + line; }
  [[nodiscard]] std::size_t gate_offset() const { return broken_offset() + line; }
  static constexpr std::size_t failure_text_bytes = 4 * line;
  [[nodiscard]] std::size_t failure_texts_offset() const { return gate_offset() + line; }
  [[nodiscard]] std::size_t stages_offset() const;
  [[nodiscard]] std::size_t channels_offset() const;
  static constexpr std::size_t channel_words_bytes = 2 * line;
  [[nodiscard]] std::size_t rings_offset() const;
  [[nodiscard]] std::size_t total_bytes() const;
  // Returns the bytes of everything before the first stage, and of the first stage without its windows.
  [[nodiscard]] std::size_t bytes_without_windows() const { return stages_offset() + windows_in_stage(); }

  // Returns the number of short slots of a rank. More ranks use trees instead. If calls are compared, there
  // are none either, because a rank has only eight records and so must not be many calls ahead.
  [[nodiscard]] int short_slots() const {
    return ranks > most_ranks_without_tree || compares_calls ? 0 : most_short_slots;
  }

  // The following offsets are within a stage.
  [[nodiscard]] std::size_t short_slots_in_stage() const {
    return 2 * static_cast<std::size_t>(ranks) * (inline_bytes + line);
  }
  [[nodiscard]] std::size_t signs_in_stage() const {
    return short_slots_in_stage() + bytes_of_lines(lines_of_short_slot * short_slots() * ranks);
  }
  [[nodiscard]] std::size_t uses_in_stage() const { return signs_in_stage() + bytes_of_lines(ranks); }
  [[nodiscard]] std::size_t round_words_in_stage() const { return uses_in_stage() + bytes_of_lines(ranks); }
  [[nodiscard]] std::size_t round_words_bytes() const;  // for one half
  [[nodiscard]] std::size_t tree_lines_in_stage() const {
    return round_words_in_stage() + 2 * round_words_bytes();
  }
  [[nodiscard]] std::size_t records_in_stage() const {
    return tree_lines_in_stage() + bytes_of_lines(2 * ranks * tree_levels);
  }
  static constexpr int records_of_rank = 8;
  static constexpr int lines_of_records = 4;
  [[nodiscard]] std::size_t alltoallv_lengths_in_stage() const {
    return records_in_stage() + bytes_of_lines(lines_of_records * ranks);
  }
  [[nodiscard]] std::size_t steps_in_stage() const;
  [[nodiscard]] int words_per_step() const { return ranks + 2; }
  [[nodiscard]] std::size_t step_bytes() const { return bytes_of_lines(words_per_step()); }  // for one chunk
  [[nodiscard]] std::size_t relay_words_in_stage() const;
  [[nodiscard]] std::size_t windows_in_stage() const;
  [[nodiscard]] std::size_t windows_bytes() const {
    return 2 * static_cast<std::size_t>(ranks) * window_bytes;
  }
  [[nodiscard]] std::size_t stage_bytes() const {
    return in_whole_pages(windows_in_stage() + windows_bytes());
  }
  [[nodiscard]] std::size_t in_whole_pages(std::size_t bytes) const {
    return (bytes + page_bytes - 1) & ~(page_bytes - 1);
  }
};

}  // namespace offbeat
