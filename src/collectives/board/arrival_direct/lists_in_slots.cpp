// SPDX-License-Identifier: BSD-3-Clause
#include "collectives/board/arrival_direct/lists_in_slots.hpp"

#include "node/board_awaitables.hpp"

namespace offbeat::direct {

Task all_slots_have_arrived(Board& board, const Call& call) {
  const ListsInSlots lists(board, call);
  for (int rank = 0; rank < board.size; ++rank) {
    Patience::Wait wait(board.patience);
    while (!lists.has_arrived(rank)) co_await board.pause(wait);
  }
}

}  // namespace offbeat::direct
