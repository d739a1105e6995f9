// SPDX-License-Identifier: BSD-3-Clause
// Ways to place ranks on nodes.
#pragma once

#include <vector>

#include "collectives/algorithm.hpp"
#include "node/membership.hpp"

namespace offbeat {

struct NodeShape {
  const char* name;
  int (*node_of)(int rank);
  bool is_small;  // says nothing more with many ranks

  [[nodiscard]] std::vector<int> of(int ranks) const {
    std::vector<int> nodes;
    for (int rank = 0; rank < ranks; ++rank) nodes.push_back(node_of(rank));
    return nodes;
  }
};

[[nodiscard]] inline Membership membership_of(const std::vector<int>& node_of_rank) {
  Membership membership(static_cast<int>(node_of_rank.size()));
  membership.group_by([&](int rank) { return node_of_rank[static_cast<std::size_t>(rank)]; });
  return membership;
}

// Returns the placement of ranks whose nodes have boards.
[[nodiscard]] inline Placement placement_of(const Membership& membership) {
  return {.ranks = membership.ranks(),
          .nodes = membership.nodes(),
          .board = true,
          .in_rank_order = membership.is_in_rank_order(),
          .equal_nodes = membership.has_equal_nodes()};
}

inline const std::vector<NodeShape> node_shapes = {
    {"one node", [](int) { return 0; }, true},
    {"one rank each", [](int rank) { return rank; }, true},
    {"threes", [](int rank) { return rank / 3; }, false},
    {"twos, in turn", [](int rank) { return rank / 4 * 2 + rank % 2; }, true},
    {"three in turn", [](int rank) { return rank % 3; }, false},
    {"3, 2, 1 and again", [](int rank) { return rank / 6 * 3 + (rank % 6 > 4   ? 2
                                                                : rank % 6 > 2 ? 1
                                                                               : 0); },
     true},
    {"5, 1, 1 and again", [](int rank) { return rank / 7 * 3 + (rank % 7 > 4 ? rank % 7 - 4 : 0); }, false},
    {"anywhere", [](int rank) { return rank * rank % 7; }, true},
};

}  // namespace offbeat
