// SPDX-License-Identifier: BSD-3-Clause
// Identifies this build of offbeat, so that ranks with different builds find out before they share a board.
#pragma once

#include <cstdint>

#include "selection/selection.hpp"

namespace offbeat {

// Returns a hash of the version, the layout of the board, and the built-in rules. Builds that could not work
// together almost surely have different hashes.
[[nodiscard]] std::uint64_t build_identity(const Selection& selection);

}  // namespace offbeat
