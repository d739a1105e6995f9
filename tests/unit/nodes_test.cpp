// SPDX-License-Identifier: BSD-3-Clause
// Which ranks share a node, from what each rank says of itself.
#include "transport/node/nodes.hpp"

#include <gtest/gtest.h>

#include <vector>

#include "transport/node/node_identity.hpp"

namespace offbeat {
namespace {

NodeLists lists_of(const std::vector<NodeIdentity>& identities, int rank) {
  NodeLists lists(static_cast<int>(identities.size()));
  lists.find_leaders(identities);
  lists.sort_out(rank);
  return lists;
}

TEST(Nodes, RanksAreGroupedByTheirKernelInAnyMapping) {
  const NodeIdentity one{.host_name = 7, .kernel = 900};
  const NodeIdentity other{.host_name = 7, .kernel = 100};  // careless clusters have one name for all
  const NodeIdentity third{.host_name = 8, .kernel = 500};
  const std::vector<NodeIdentity> cyclic{one, other, third, one, other, one};

  const NodeLists lists = lists_of(cyclic, 3);

  EXPECT_EQ(lists.leader_of_rank, (std::vector<int>{0, 1, 2, 0, 1, 0}));
  EXPECT_EQ(lists.leaders, (std::vector<int>{0, 1, 2}));
  EXPECT_EQ(lists.here, (std::vector<int>{0, 3, 5}));
}

TEST(Nodes, HostNamesDecideWhereOneRankKnowsNoMore) {
  const NodeIdentity known{.host_name = 7, .kernel = 900};
  const NodeIdentity unknown{.host_name = 7, .kernel = 0};
  const NodeIdentity elsewhere{.host_name = 8, .kernel = 100};

  const NodeLists lists = lists_of({known, elsewhere, unknown, elsewhere}, 2);

  EXPECT_EQ(lists.leader_of_rank, (std::vector<int>{0, 1, 0, 1}));
  EXPECT_EQ(lists.here, (std::vector<int>{0, 2}));
}

TEST(Nodes, ManyNodesTakeNoQuadraticTime) {
  constexpr int ranks = 200'000;
  std::vector<NodeIdentity> identities(ranks);
  for (int rank = 0; rank < ranks; ++rank) {
    const auto node = static_cast<std::uint64_t>(rank / 2 + 1) * 0x9E3779B97F4A7C15ULL;
    identities[static_cast<std::size_t>(rank)] = {.host_name = node, .kernel = node};
  }

  const NodeLists lists = lists_of(identities, ranks - 1);

  EXPECT_EQ(lists.leaders.size(), ranks / 2);
  EXPECT_EQ(lists.here, (std::vector<int>{ranks - 2, ranks - 1}));
}

TEST(Nodes, AProcessIsWhereItIs) {
  const NodeIdentity first = NodeIdentity::of_this_process();
  const NodeIdentity second = NodeIdentity::of_this_process();
  EXPECT_NE(first.host_name, 0);
  EXPECT_EQ(first.host_name, second.host_name);
  EXPECT_EQ(first.kernel, second.kernel);
}

}  // namespace
}  // namespace offbeat
