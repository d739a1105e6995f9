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
// The most that were measured. Chains and rings take a step for each node, so they need not win among
// hundreds.
inline constexpr int measured_nodes = 8;

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
  std::size_t least_of_node = 0;  // not for calls of fewer bytes for each node
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
