// SPDX-License-Identifier: BSD-3-Clause
// How a round on the board begins.
//
//     board.round.next(all_meet);
//     if (!board.may_begin(board.round)) co_await begin_round(board);
#pragma once

#include "base/task.hpp"
#include "node/board.hpp"

namespace offbeat {

// Where not all ranks meet in this round, or did not in the one before.
[[nodiscard]] inline Task begin_round(Board& board) {
  if (board.round.is_apart())
    co_await board.announce(board.signs(board.rank).round, {board.round.present, board.rank});
  Patience::Wait wait(board.patience);
  while (!board.is_free(board.round)) co_await board.pause(wait);
}

}  // namespace offbeat
