// SPDX-License-Identifier: BSD-3-Clause
// Everything that offbeat knows of one collective. Each collective has a folder and a repertoire of its name.
#pragma once

#include <cstddef>
#include <limits>
#include <span>
#include <string_view>

#include "collectives/algorithm.hpp"

namespace offbeat {

inline constexpr std::size_t any_length = std::numeric_limits<std::size_t>::max();

// A default: the expression for calls of at most `most_bytes`, if it can run.
struct Default {
  std::size_t most_bytes;
  std::string_view expression;
};

struct Repertoire {
  // In the order in which people want to read them.
  std::span<const Algorithm* const> algorithms;
  // The first default applies that can run and whose limit is not below the length of the call.
  std::span<const Default> defaults;
  // For calls that the host cannot serve: an expression that needs only messages and at least two ranks.
  std::string_view without_host;
};

// Empty: the host serves the collective.
[[nodiscard]] const Repertoire& repertoire(Collective collective);

}  // namespace offbeat
