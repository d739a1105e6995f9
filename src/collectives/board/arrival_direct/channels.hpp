// SPDX-License-Identifier: BSD-3-Clause
// How blocks that go to one rank each get there: through a channel for each giver and taker, a part of a
// window that is filled again as it is emptied.
#pragma once

#include "base/task.hpp"
#include "collectives/board/arrival_direct/window_round.hpp"

namespace offbeat::direct {

// Whether the board has words for the channels of windows with this many pieces.
[[nodiscard]] bool channels_fit(const Board& board, int pieces);
// Everything that one rank gives and takes in channels, as fast as each of the others lets it. In the round a
// piece is a whole channel.
[[nodiscard]] Task through_channels(const WindowRound& round);

}  // namespace offbeat::direct
