// SPDX-License-Identifier: BSD-3-Clause
// Pieces carry blocks that go to several ranks, or that are combined, through windows. Each round moves a
// piece of each block, in chunks that are announced one by one.
#pragma once

#include "base/task.hpp"
#include "collectives/board/arrival_direct/window_round.hpp"

namespace offbeat::direct {

// Puts the pieces of this rank into its window.
[[nodiscard]] Task put_pieces(const WindowRound& round);
// Takes the pieces for this rank, or combines them if the collective has an operation.
[[nodiscard]] Task take_or_combine_pieces(const WindowRound& round);

}  // namespace offbeat::direct
