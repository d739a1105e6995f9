// SPDX-License-Identifier: BSD-3-Clause
#include "collectives/allreduce/board_round.hpp"

namespace offbeat {

Task BoardRound::collect_results() const {
  for (std::size_t chunk = 0; chunk < chunks; ++chunk) {
    const Board::Word& result = step(chunk).result();
    Patience::Wait wait(board.patience);
    while (!is_marked(result)) co_await board.pause(wait);
    co_await net.copy(of(args.output, chunk), on_board(holder(result), chunk));
  }
}

}  // namespace offbeat
