// SPDX-License-Identifier: BSD-3-Clause
// Which build of offbeat this is, so that ranks under different ones find out before they use a board
// together.
#pragma once

#include <cstdint>

#include "selection/selection.hpp"

namespace offbeat {

// A hash of the version, of where everything is on the board, and of the built-in choices under this host. It
// differs, almost surely, between builds that could not work together.
[[nodiscard]] std::uint64_t build_identity(const Selection& selection);

}  // namespace offbeat
