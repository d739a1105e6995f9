// SPDX-License-Identifier: BSD-3-Clause
// Channels carry blocks that go to one rank each. Each pair of giver and taker has a channel: a part of a
// window that is filled again as it is emptied.
#pragma once

#include "base/task.hpp"
#include "collectives/board/arrival_direct/lists_at_root.hpp"
#include "collectives/board/arrival_direct/window_round.hpp"

namespace offbeat::direct {

// Returns true if the board has words for the channels of windows with this many pieces.
[[nodiscard]] bool board_has_channels(const Board& board, int pieces);
// Moves all blocks that this rank gives or takes through channels, at the pace of each other rank. In
// `round`, a piece is a whole channel. If there are `lists`, short blocks come in slots.
[[nodiscard]] Task run_through_channels(const WindowRound& round, const ListsAtRoot* lists = nullptr);

}  // namespace offbeat::direct
