// SPDX-License-Identifier: BSD-3-Clause
#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>
#include <string>
#include <vector>

#include "patterns/blocks.hpp"
#include "patterns/butterfly.hpp"
#include "patterns/knomial_tree.hpp"
#include "patterns/radix_butterfly.hpp"
#include "patterns/radix_tree.hpp"
#include "patterns/rank_map.hpp"
#include "patterns/straggler_rounds.hpp"

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

TEST(StragglerRounds, EveryRankHasEveryBlockInTheFewestRounds) {
  for (int height = 1; height <= 10; ++height) {
    const int ranks = 1 << height;
    const int late = ranks - 1;
    const StragglerRounds rounds(ranks);
    ASSERT_EQ(rounds.rounds(), ranks + height - 2);
    std::vector<std::vector<bool>> has(static_cast<std::size_t>(ranks),
                                       std::vector<bool>(static_cast<std::size_t>(late)));
    for (int round = 0; round < rounds.rounds(); ++round) {
      const auto before = has;
      for (int rank = 0; rank < ranks; ++rank) {
        const StragglerRounds::Step step = rounds.step(rank, round);
        const StragglerRounds::Step back = rounds.step(step.peer, round);
        ASSERT_EQ(back.peer, rank);
        ASSERT_EQ(back.sent, step.received);
        ASSERT_EQ(back.received, step.sent);
        if (rank == late && round < late) {
          ASSERT_EQ(step.peer, round);
        }
        if (step.received == StragglerRounds::no_block) continue;
        const auto block = static_cast<std::size_t>(step.received);
        const bool completes = round < late && (rank == late || step.peer == late);
        ASSERT_EQ(before[static_cast<std::size_t>(step.peer)][block], !completes) << "round " << round;
        ASSERT_FALSE(before[static_cast<std::size_t>(rank)][block]) << "round " << round;
        has[static_cast<std::size_t>(rank)][block] = true;
      }
    }
    for (const auto& blocks : has) ASSERT_EQ(std::ranges::count(blocks, true), late) << ranks << " ranks";
  }
}

TEST(KnomialTree, ASubtreeIsItsRootAndTheSubtreesOfItsChildren) {
  for (const int radix : {2, 3, 4, 7}) {
    for (int ranks = 1; ranks <= 70; ++ranks) {
      const KnomialTree tree{ranks, radix};
      ASSERT_EQ(tree.size(0), ranks);
      for (int rank = 0; rank < ranks; ++rank) {
        int next = rank + 1;  // the ranks of a subtree follow one another
        for (int distance = 1; distance < tree.reach(rank); distance *= radix) {
          for (int child = rank + distance; child < std::min(rank + radix * distance, ranks);
               child += distance) {
            ASSERT_EQ(child, next) << ranks << " ranks, radix " << radix;
            ASSERT_EQ(tree.parent(child), rank);
            next += tree.size(child);
          }
        }
        ASSERT_EQ(next, rank + tree.size(rank)) << ranks << " ranks, radix " << radix;
      }
    }
  }
}

void expect_butterfly(const Butterfly& butterfly, int ranks) {
  const int steps = Butterfly::steps(ranks);
  const auto half = [&](int rank, int step) { return butterfly.keeps_upper_half(rank, step, ranks); };
  std::vector<int> owner(static_cast<std::size_t>(ranks), -1);
  for (int rank = 0; rank < ranks; ++rank) {
    for (int step = 0; step < steps; ++step) {
      const int peer = butterfly.peer(rank, step, ranks);
      ASSERT_GE(peer, 0);
      ASSERT_LT(peer, ranks);
      ASSERT_EQ(butterfly.peer(peer, step, ranks), rank) << "step " << step;
      for (int before = 0; before < step; ++before) {
        ASSERT_EQ(half(peer, before), half(rank, before)) << "rank " << rank << ", step " << step;
      }
      ASSERT_NE(half(peer, step), half(rank, step)) << "rank " << rank << ", step " << step;
    }
    int& owns = owner[static_cast<std::size_t>(butterfly.final_block_of(rank, ranks))];
    ASSERT_EQ(owns, -1) << "ranks " << owns << " and " << rank;
    owns = rank;

    // What a rank ends with comes from every rank, once.
    std::vector<int> givers{rank};
    for (int step = steps - 1; step >= 0; --step) {
      const std::size_t count = givers.size();
      for (std::size_t k = 0; k < count; ++k) givers.push_back(butterfly.peer(givers[k], step, ranks));
    }
    std::ranges::sort(givers);
    for (int other = 0; other < ranks; ++other) ASSERT_EQ(givers[static_cast<std::size_t>(other)], other);
  }
}

TEST(Butterfly, HalvesTheBlocksOfEveryRank) {
  for (int ranks = 1; ranks <= 512; ranks *= 2) {
    SCOPED_TRACE(std::to_string(ranks) + " ranks");
    for (const Butterfly& butterfly : {hypercube, bine_butterfly}) expect_butterfly(butterfly, ranks);
  }
}

TEST(Butterfly, ThatOfBineTreesHasNegabinaryDistances) {
  constexpr int ranks = 1024;
  constexpr int distances[] = {1, -1, 3, -5, 11, -21, 43, -85, 171, -341};
  for (int step = 0; step < 10; ++step) {
    for (int rank = 0; rank < ranks; ++rank) {
      const int distance = rank % 2 == 0 ? distances[step] : -distances[step];
      ASSERT_EQ(bine_butterfly.peer(rank, step, ranks), (rank + distance + ranks) % ranks);
    }
  }
}

// Bytes that cross between parts of the network, of a vector of one byte a block.
double crossing(const Butterfly& butterfly, int ranks, int part) {
  double bytes = 0;
  for (int step = 0; step < Butterfly::steps(ranks); ++step) {
    for (int rank = 0; rank < ranks; ++rank) {
      if (rank / part != butterfly.peer(rank, step, ranks) / part) bytes += ranks >> (step + 1);
    }
  }
  return bytes;
}

TEST(Butterfly, ThatOfBineTreesCrossesLessBetweenPartsOfNoPowerOfTwo) {
  const auto share = [](int part) {
    return crossing(bine_butterfly, 1024, part) / crossing(hypercube, 1024, part);
  };
  EXPECT_NEAR(share(6), 0.86, 0.005);
  EXPECT_NEAR(share(30), 0.78, 0.005);
  EXPECT_NEAR(share(100), 0.91, 0.005);
  EXPECT_NEAR(share(180), 0.91, 0.005);
  EXPECT_NEAR(share(16), 1.95, 0.005);
  EXPECT_NEAR(share(64), 2.72, 0.005);
}

TEST(RankMap, ARingBeginsAnywhere) {
  const RankMap ring{.first = 3, .wraps_at = 5};
  EXPECT_EQ(ring(0), 3);
  EXPECT_EQ(ring(1), 4);
  EXPECT_EQ(ring(2), 0);
}

TEST(RankMap, ARowAndAColumnOfAGrid) {
  const RankMap row{.first = 8};
  EXPECT_EQ(row(0), 8);
  EXPECT_EQ(row(3), 11);
  const RankMap column{.first = 2, .stride = 4};
  EXPECT_EQ(column(0), 2);
  EXPECT_EQ(column(3), 14);
}

// Every rank but the root has one parent, which counts it among its children, in the group of its height. The
// subtrees of the blocks of a group follow one another.
TEST(RadixTree, JoinsRangesOfRanksForEveryRoot) {
  for (const int bits : {1, 2, 3}) {
    for (int ranks = 1; ranks <= 70; ++ranks) {
      int depth = 0;
      for (int length = 1; length < ranks; length <<= bits) ++depth;
      for (int root = 0; root < ranks; ++root) {
        std::vector<int> parents(static_cast<std::size_t>(ranks), -1);
        for (int rank = 0; rank < ranks; ++rank) {
          const RadixTree tree(rank, ranks, root, bits);
          ASSERT_EQ(tree.is_root(), rank == root);
          ASSERT_LE(tree.begin(), rank);
          ASSERT_GT(tree.begin() + tree.size(), rank);
          if (rank == root) {
            ASSERT_EQ(tree.height(), depth);
            ASSERT_EQ(tree.size(), ranks);
          }
          int covered = 1;
          for (int level = 0; level < tree.height(); ++level) {
            const RadixTree::Group group = tree.group(level);
            ASSERT_LE(group.size(), 1 << bits);
            int next = group.begin(0);
            for (int block = 0; block < group.size(); ++block) {
              ASSERT_EQ(group.begin(block), next);
              next += group.size(block);
              const int child = group.rank(block);
              ASSERT_EQ(child == rank, block == group.own_block());
              if (child == rank) continue;
              const RadixTree below(child, ranks, root, bits);
              ASSERT_EQ(below.parent(), rank);
              ASSERT_EQ(below.height(), level);
              ASSERT_EQ(below.begin(), group.begin(block));
              ASSERT_EQ(below.size(), group.size(block));
              ASSERT_EQ(parents[static_cast<std::size_t>(child)], -1);
              parents[static_cast<std::size_t>(child)] = rank;
              covered += below.size();
            }
          }
          ASSERT_EQ(covered, tree.size());
        }
        for (int rank = 0; rank < ranks; ++rank)
          ASSERT_EQ(parents[static_cast<std::size_t>(rank)] == -1, rank == root);
      }
    }
  }
}

// Every rank ends with all ranks, in order, and each knows who takes its data.
TEST(RadixButterfly, JoinsRangesOfRanksOnEveryRank) {
  for (int bits = 1; bits <= 3; ++bits) {
    for (int ranks = 1; ranks <= 70; ++ranks) {
      SCOPED_TRACE(std::to_string(ranks) + " ranks, 2^" + std::to_string(bits));
      std::vector<std::vector<int>> held;
      for (int rank = 0; rank < ranks; ++rank) held.push_back({rank});
      const int levels = RadixButterfly(0, ranks, bits).levels();
      for (int level = 0; level < levels; ++level) {
        std::vector<std::vector<int>> takers(held.size());
        std::vector<std::vector<int>> next;
        for (int rank = 0; rank < ranks; ++rank) {
          const RadixButterfly::Group group = RadixButterfly(rank, ranks, bits).group(level);
          ASSERT_LE(group.size(), 1 << bits);
          std::vector<int>& mine = next.emplace_back();
          for (int block = 0; block < group.size(); ++block) {
            const bool is_own = block == group.own_block();
            const auto source = static_cast<std::size_t>(is_own ? rank : group.source(block));
            if (!is_own) takers[source].push_back(rank);
            mine.insert(mine.end(), held[source].begin(), held[source].end());
          }
        }
        for (int rank = 0; rank < ranks; ++rank) {
          std::vector<int> known;
          const auto note = [&](int taker) {
            known.push_back(taker);
            return true;
          };
          EXPECT_TRUE(RadixButterfly(rank, ranks, bits).group(level).all_takers_satisfy(note));
          EXPECT_EQ(known, takers[static_cast<std::size_t>(rank)]) << "rank " << rank << ", level " << level;
        }
        held = next;
      }
      std::vector<int> all(static_cast<std::size_t>(ranks));
      std::iota(all.begin(), all.end(), 0);
      for (const std::vector<int>& each : held) EXPECT_EQ(each, all);
    }
  }
}

TEST(RankMap, AMemberCanBeReplaced) {
  const RankMap column{.first = 2, .stride = 4, .replaced_member = 1, .replacement_rank = 7};
  EXPECT_EQ(column(0), 2);
  EXPECT_EQ(column(1), 7);
  EXPECT_EQ(column(2), 10);
}

}  // namespace
}  // namespace offbeat
