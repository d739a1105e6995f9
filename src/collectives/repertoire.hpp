// SPDX-License-Identifier: BSD-3-Clause
// A repertoire lists the algorithms of one collective; src/selection/rules.txt says which one runs. Each
// collective has a repertoire of its name, and a folder unless it has the algorithms of another one.
#pragma once

#include <span>
#include <string_view>

#include "collectives/algorithm.hpp"

namespace offbeat {

struct Repertoire {
  // The algorithms in the order in which help texts list them.
  std::span<const Algorithm* const> algorithms;
  // The expression for calls that the host cannot serve. It needs only messages and at least two ranks.
  std::string_view without_host;
};

// Returns the repertoire of a collective. It is empty if the host serves the collective.
[[nodiscard]] const Repertoire& repertoire(Collective collective);

}  // namespace offbeat
