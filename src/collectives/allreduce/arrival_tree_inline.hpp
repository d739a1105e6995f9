// SPDX-License-Identifier: BSD-3-Clause
// arrival_tree for messages that fit beside a sequence number: no coroutine, no chunk, one step.
//
// Every rank writes its vector into its slot and reads those of the others, in rank order, as they come: when
// the data fits in a line or a few, combining it is cheaper than telling others the result. The last arrival
// is followed by one cache line transfer.
#pragma once

#include <algorithm>
#include <array>
#include <cstring>

#include "collectives/algorithm.hpp"
#include "node/board.hpp"

namespace offbeat {

inline constexpr int most_inline_ranks = 16;

// Every rank reads the vectors of all: beyond this the tree is faster (benchmark_board).
inline constexpr std::size_t most_inline_bytes_of_all = 2 * BoardShape::inline_bytes;

[[nodiscard]] inline bool fits_inline(const Board& board, std::size_t bytes) {
  return board.size <= most_inline_ranks &&
         bytes * static_cast<std::size_t>(board.size) <= most_inline_bytes_of_all;
}

// Order: rank order, left to right. call.output.count > 0 and fits_inline.
inline void arrival_tree_inline(Board& board, const Call& call) {
  const std::uint64_t sequence = ++board.sequence;
  Board::InlineSlot& mine = board.inline_slot(sequence, board.rank);
  std::memcpy(mine.data, call.input.data, call.input.bytes());
  mine.sequence.store(sequence, std::memory_order_release);
  board.bell().ring();

  const auto has_come = [&](int rank) {
    return board.inline_slot(sequence, rank).sequence.load(std::memory_order_acquire) == sequence;
  };
  std::array<const void*, most_inline_ranks> operands;
  for (int rank = 0; rank < board.size; ++rank) {
    if (rank == board.rank) {
      operands[static_cast<std::size_t>(rank)] = call.input.data;
      continue;
    }
    if (!has_come(rank)) [[unlikely]] {
      Patience::Wait wait(board.patience);
      while (!has_come(rank)) wait.pause(board.patience.shares_cores && board.core_is_wanted(has_come));
    }
    operands[static_cast<std::size_t>(rank)] = board.inline_slot(sequence, rank).data;
  }
  (*call.op)(call.output.data, operands.data(), static_cast<std::size_t>(board.size), call.output.count);
}

}  // namespace offbeat
