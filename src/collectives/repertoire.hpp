// SPDX-License-Identifier: BSD-3-Clause
// Everything that offbeat knows of one collective. Each collective has a folder and a repertoire of its name.
#pragma once

#include <cstddef>
#include <cstdint>
#include <limits>
#include <span>
#include <string_view>

#include "collectives/algorithm.hpp"

namespace offbeat {

inline constexpr std::size_t any_length = std::numeric_limits<std::size_t>::max();
[[nodiscard]] constexpr std::size_t below_kib(std::size_t kib) { return (kib << 10) - 1; }

inline constexpr int any_number = std::numeric_limits<int>::max();
// For algorithms that take a step for each node, with less in it the more nodes there are: 4 and 8 nodes were
// measured, and nobody knows who wins among hundreds.
inline constexpr int few_nodes = 16;

// How ranks lie on nodes.
enum class Spread : std::uint8_t {
  any,
  node_each,  // several nodes, of which none has two of the ranks
};

// A default: the expression for calls of at most `most_bytes`, if it can run. It may be native.
struct Default {
  std::size_t most_bytes;
  std::string_view expression;
  int most_nodes = any_number;
  Spread spread = Spread::any;
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
