// SPDX-License-Identifier: BSD-3-Clause
#include "collectives/allreduce/board_round.hpp"

namespace offbeat {

Task BoardRound::collect_results() const {
  for (std::size_t chunk = 0; chunk < chunks; ++chunk) {
    Patience::Wait wait(board.patience);
    while (!has_result(*this, chunk)) co_await board.pause(wait);
    co_await collect_result(*this, chunk);
  }
}

}  // namespace offbeat
