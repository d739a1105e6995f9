// SPDX-License-Identifier: BSD-3-Clause
#include <gtest/gtest.h>

#include "patterns/blocks.hpp"
#include "patterns/rank_map.hpp"

namespace offbeat {
namespace {

TEST(Blocks, CoverTheVectorInOrderAndDifferByAtMostOne) {
  for (std::size_t count = 0; count <= 200; ++count) {
    for (int parts = 1; parts <= 64; ++parts) {
      ASSERT_EQ(block_begin(count, parts, 0), 0U);
      ASSERT_EQ(block_begin(count, parts, parts), count);
      for (int k = 0; k < parts; ++k) {
        const std::size_t length = block_begin(count, parts, k + 1) - block_begin(count, parts, k);
        ASSERT_GE(length, count / static_cast<std::size_t>(parts));
        ASSERT_LE(length, count / static_cast<std::size_t>(parts) + 1);
        // The first block is a longest one: scratch is sized by it.
        ASSERT_LE(length, block_begin(count, parts, 1));
      }
    }
  }
}

TEST(Blocks, DoNotOverflow) {
  const std::size_t count = ~std::size_t{0};
  EXPECT_EQ(block_begin(count, 7, 7), count);
}

TEST(Groups, AreContiguousAndCoverAllRanks) {
  for (int size = 1; size <= 64; ++size) {
    for (int groups = 1; groups <= size; ++groups) {
      const Groups grouping{size, groups};
      int next = 0;
      for (int group = 0; group < groups; ++group) {
        ASSERT_EQ(grouping.leader(group), next);
        for (int member = 0; member < grouping.members(group); ++member) {
          ASSERT_EQ(grouping.group_of(next), group)
              << size << " ranks, " << groups << " groups, rank " << next;
          ++next;
        }
      }
      ASSERT_EQ(next, size);
    }
  }
}

TEST(RankMap, ARowAndAColumnOfAGrid) {
  const RankMap row{.first = 8};
  EXPECT_EQ(row(0), 8);
  EXPECT_EQ(row(3), 11);
  const RankMap column{.first = 2, .stride = 4};
  EXPECT_EQ(column(0), 2);
  EXPECT_EQ(column(3), 14);
}

}  // namespace
}  // namespace offbeat
