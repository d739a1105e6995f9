// SPDX-License-Identifier: BSD-3-Clause
// Which ranks share a node, from what each rank says of itself.
#include "node/membership.hpp"

#include <gtest/gtest.h>

#include <vector>

#include "node/node_identity.hpp"

namespace offbeat {
namespace {

Membership membership_of(const std::vector<NodeIdentity>& identities) {
  Membership membership(static_cast<int>(identities.size()));
  membership.group(identities);
  return membership;
}

std::vector<int> members(const Membership& membership, int node) {
  const auto ranks = membership.members(node);
  return {ranks.begin(), ranks.end()};
}

TEST(Membership, GroupsRanksByTheirKernelInAnyMapping) {
  const NodeIdentity one{.host_name = 7, .kernel = 900};
  const NodeIdentity other{.host_name = 7, .kernel = 100};  // careless clusters have one name for all
  const NodeIdentity third{.host_name = 8, .kernel = 500};
  const Membership membership = membership_of({one, other, third, one, other, one});

  ASSERT_EQ(membership.nodes(), 3);
  EXPECT_EQ(members(membership, 0), (std::vector<int>{0, 3, 5}));
  EXPECT_EQ(members(membership, 1), (std::vector<int>{1, 4}));
  EXPECT_EQ(members(membership, 2), (std::vector<int>{2}));
  EXPECT_EQ(membership.rank(1, 1), 4);
  const RankMap leaders = membership.across_nodes(0);
  EXPECT_EQ((std::vector<int>{leaders(0), leaders(1), leaders(2)}), (std::vector<int>{0, 1, 2}));
  EXPECT_EQ(membership.across_nodes(1)(0), 3);
  EXPECT_FALSE(membership.is_in_rank_order());
  EXPECT_FALSE(membership.has_equal_nodes());
  EXPECT_EQ(membership.member_of(3), 1);
  EXPECT_EQ(membership.begin_of(2), 5);
  const Locality last(membership, 5);
  EXPECT_EQ(last.node, 0);
  EXPECT_EQ(last.member, 2);
}

TEST(Membership, GoesByHostNamesWhereOneRankKnowsNoMore) {
  const NodeIdentity known{.host_name = 7, .kernel = 900};
  const NodeIdentity unknown{.host_name = 7, .kernel = 0};
  const NodeIdentity elsewhere{.host_name = 8, .kernel = 100};
  const Membership membership = membership_of({known, elsewhere, unknown, elsewhere});

  EXPECT_EQ(members(membership, 0), (std::vector<int>{0, 2}));
  EXPECT_EQ(members(membership, 1), (std::vector<int>{1, 3}));
}

TEST(Membership, KnowsWhetherNodesAreAlike) {
  const NodeIdentity one{.host_name = 1, .kernel = 1};
  const NodeIdentity other{.host_name = 2, .kernel = 2};
  EXPECT_TRUE(membership_of({one, one, other, other}).has_equal_nodes());
  EXPECT_TRUE(membership_of({one, one, other, other}).is_in_rank_order());
  EXPECT_TRUE(membership_of({one, other, one, other}).has_equal_nodes());
  EXPECT_FALSE(membership_of({one, other, one, other}).is_in_rank_order());
  EXPECT_TRUE(membership_of({one, one, other}).is_in_rank_order());
  EXPECT_FALSE(membership_of({one, one, other}).has_equal_nodes());
  EXPECT_EQ(membership_of({one, one, other}).smallest_node_size(), 1);
  EXPECT_EQ(membership_of({one, other, one, other}).smallest_node_size(), 2);
}

TEST(Membership, TakesNoQuadraticTime) {
  constexpr int ranks = 200'000;
  std::vector<NodeIdentity> identities(ranks);
  for (int rank = 0; rank < ranks; ++rank) {
    const auto node = static_cast<std::uint64_t>(rank / 2 + 1) * 0x9E3779B97F4A7C15ULL;
    identities[static_cast<std::size_t>(rank)] = {.host_name = node, .kernel = node};
  }
  const Membership membership = membership_of(identities);

  EXPECT_EQ(membership.nodes(), ranks / 2);
  EXPECT_EQ(members(membership, ranks / 2 - 1), (std::vector<int>{ranks - 2, ranks - 1}));
}

TEST(Membership, AProcessIsWhereItIs) {
  const NodeIdentity first = NodeIdentity::of_this_process();
  const NodeIdentity second = NodeIdentity::of_this_process();
  EXPECT_NE(first.host_name, 0);
  EXPECT_EQ(first.host_name, second.host_name);
  EXPECT_EQ(first.kernel, second.kernel);
}

}  // namespace
}  // namespace offbeat
