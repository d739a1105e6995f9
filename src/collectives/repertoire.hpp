// SPDX-License-Identifier: BSD-3-Clause
// The algorithms of one collective; src/selection/rules.txt says which one runs. Each collective has a folder
// and a repertoire of its name.
#pragma once

#include <span>
#include <string_view>

#include "collectives/algorithm.hpp"

namespace offbeat {

struct Repertoire {
  // In the order in which people want to read them.
  std::span<const Algorithm* const> algorithms;
  // For calls that the host cannot serve: an expression that needs only messages and at least two ranks.
  std::string_view without_host;
};

// Empty: the host serves the collective.
[[nodiscard]] const Repertoire& repertoire(Collective collective);

}  // namespace offbeat
