// SPDX-License-Identifier: BSD-3-Clause
// How a round on the board begins.
//
//     board.round.next(all_meet);
//     if (!board.may_begin(board.round)) co_await begin_round(board);
#pragma once

#include "base/task.hpp"
#include "node/board_awaitables.hpp"

namespace offbeat {

// In short calls of up to so many ranks each looks at all others, and in longer ones at all windows. More
// ranks go along trees.
inline constexpr int few_ranks = 16;

// In virtual time: this rank has read how far all others have come.
[[nodiscard]] inline Task fetch_signs(Board& board, const Board::Numbers& numbers) {
  for (int other = 0; other < board.size; ++other)
    co_await board.fetch(other, &(board.signs(other).*numbers.sign), sizeof(Board::Word));
}

// For a round in which not all ranks meet, or did not in the one before.
[[nodiscard]] inline Task begin_round(Board& board) {
  if (board.round.is_apart())
    co_await board.announce(board.signs(board.rank).round, {board.round.present, board.rank});
  Patience::Wait wait(board.patience);
  while (!board.is_free(board.round)) co_await board.pause(wait);
  if (board.simulation != nullptr && board.round.follows_apart()) co_await fetch_signs(board, board.round);
}

}  // namespace offbeat
