// SPDX-License-Identifier: BSD-3-Clause
// Which ranks of a communicator are on which node, as one rank sees it.
#pragma once

#include <algorithm>
#include <span>
#include <vector>

namespace offbeat {

struct Nodes {
  std::vector<int> leaders;  // the lowest rank of each node, ascending
  std::vector<int> here;     // the ranks of this node, ascending
  int node = 0;              // this node's place among the leaders
  int member = 0;            // this rank's place on its node
  int ranks = 0;             // of the communicator

  // From the leader of every rank's node. Ranks may be mapped in any way, nodes may differ in size.
  Nodes(std::span<const int> leader_of_rank, int rank) : ranks(static_cast<int>(leader_of_rank.size())) {
    for (int other = 0; other < static_cast<int>(leader_of_rank.size()); ++other) {
      const int leader = leader_of_rank[static_cast<std::size_t>(other)];
      if (leader == other) leaders.push_back(other);
      if (leader == leader_of_rank[static_cast<std::size_t>(rank)]) here.push_back(other);
    }
    const auto place = [](const std::vector<int>& ranks, int wanted) {
      return static_cast<int>(std::lower_bound(ranks.begin(), ranks.end(), wanted) - ranks.begin());
    };
    node = place(leaders, here.front());
    member = place(here, rank);
  }
  [[nodiscard]] int count() const { return static_cast<int>(leaders.size()); }
};

}  // namespace offbeat
