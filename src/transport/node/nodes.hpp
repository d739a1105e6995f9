// SPDX-License-Identifier: BSD-3-Clause
// Which ranks of a communicator are on which node, as one rank sees it.
#pragma once

#include <algorithm>
#include <cstdint>
#include <numeric>
#include <span>
#include <vector>

#include "transport/node/node_identity.hpp"

namespace offbeat {

// A view of two lists; simulated ranks share them.
struct Nodes {
  std::span<const int> leaders;  // the lowest rank of each node, ascending
  std::span<const int> here;     // the ranks of this node, ascending
  int node;                      // this node's place among the leaders
  int member;                    // this rank's place on its node
  int ranks;                     // of the communicator

  Nodes(std::span<const int> leaders, std::span<const int> here, int rank, int ranks)
      : leaders(leaders),
        here(here),
        node(place(leaders, here.front())),
        member(place(here, rank)),
        ranks(ranks) {}
  [[nodiscard]] int count() const { return static_cast<int>(leaders.size()); }

 private:
  static int place(std::span<const int> list, int wanted) {
    return static_cast<int>(std::ranges::lower_bound(list, wanted) - list.begin());
  }
};

// The lists of one rank.
struct NodeLists {
  std::vector<int> leader_of_rank;  // the lowest rank on the node of each rank
  std::vector<int> leaders{};
  std::vector<int> here{};

  // All the memory that it ever takes.
  explicit NodeLists(int ranks) : leader_of_rank(static_cast<std::size_t>(ranks)) {
    leaders.reserve(leader_of_rank.size());
    here.reserve(leader_of_rank.size());
  }
  // The first list, from what each rank says of itself.
  void find_leaders(std::span<const NodeIdentity> identities) {
    // Where one rank cannot read /proc, host names have to do for all.
    const bool kernels_are_known =
        std::ranges::none_of(identities, [](const NodeIdentity& each) { return each.kernel == 0; });
    const auto identity = [&](int rank) {
      const NodeIdentity& each = identities[static_cast<std::size_t>(rank)];
      return kernels_are_known ? each.kernel : each.host_name;
    };
    std::vector<int>& by_node = here;  // which is made by sort_out
    by_node.resize(leader_of_rank.size());
    std::iota(by_node.begin(), by_node.end(), 0);
    std::ranges::sort(by_node, [&](int one, int other) {
      return identity(one) != identity(other) ? identity(one) < identity(other) : one < other;
    });
    int leader = 0;
    for (std::size_t k = 0; k < by_node.size(); ++k) {
      if (k == 0 || identity(by_node[k]) != identity(by_node[k - 1])) leader = by_node[k];
      leader_of_rank[static_cast<std::size_t>(by_node[k])] = leader;
    }
  }
  // The other two from the first, as `rank` sees them. Ranks may be mapped in any way, nodes may differ in
  // size.
  void sort_out(int rank) {
    leaders.clear();
    here.clear();
    for (int other = 0; other < static_cast<int>(leader_of_rank.size()); ++other) {
      const int leader = leader_of_rank[static_cast<std::size_t>(other)];
      if (leader == other) leaders.push_back(other);
      if (leader == leader_of_rank[static_cast<std::size_t>(rank)]) here.push_back(other);
    }
  }
};

}  // namespace offbeat
