// SPDX-License-Identifier: BSD-3-Clause
// What the headers of the reduce-scatter algorithms say about their cost and their order, exactly.
// collectives_test.cpp checks the rest.
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <string>
#include <vector>

#include "checked_calls.hpp"
#include "hockney.hpp"

namespace offbeat {
namespace {

class ReduceScatterCost : public Hockney {
 protected:
  static constexpr std::size_t block = 1 << 16;
  static constexpr double m = block;

  static double time_of(const std::string& text, int ranks) {
    return Hockney::time_of(Collective::reduce_scatter_block, text, ranks,
                            block * static_cast<std::size_t>(ranks), block);
  }
  struct Splitting {
    const char* text;
    int ranks;
    int steps;
  };
};

TEST_F(ReduceScatterCost, Ring) {
  for (const int p : {2, 7, 16}) EXPECT_NEAR(time_of("ring", p), (p - 1) * (a + m * b + m * c), 1e-12) << p;
}

TEST_F(ReduceScatterCost, Pairwise) {
  for (const int p : {2, 7, 16})
    EXPECT_NEAR(time_of("pairwise", p), (p - 1) * (a + m * b + m * c), 1e-12) << p;
}

TEST_F(ReduceScatterCost, RecursiveHalvingOfPowersOfTwo) {
  for (const int p : {2, 16, 64})
    EXPECT_NEAR(time_of("recursive_halving", p), std::log2(p) * a + (p - 1) * m * (b + c), 1e-12) << p;
}

// A rank may send its part before the other one is ready for it.
TEST_F(ReduceScatterCost, RecursiveHalvingWithASurplusRankAtMost) {
  EXPECT_LT(time_of("recursive_halving", 3), 3 * a + (2 + 4) * m * b + (2 + 3) * m * c + 1e-12);
}

// Each part takes the ports as long as with K = 2, and there are fewer steps.
TEST_F(ReduceScatterCost, RecursiveSplittingOfPowersOfItsRadix) {
  for (const auto& [text, p, steps] :
       {Splitting{"recursive_splitting(4)", 64, 3}, Splitting{"recursive_splitting(3)", 27, 3},
        Splitting{"recursive_splitting(8)", 8, 1}})
    EXPECT_NEAR(time_of(text, p), steps * a + (p - 1) * m * (b + c), 1e-12) << text;
}

class ReduceScatterOrder : public testing::Test {
 protected:
  using Block = std::vector<Bits>;

  static std::vector<Block> results(const std::string& text, int ranks) {
    CheckedCalls checked = make(ranks);
    const Expression expression = parse_expression(Collective::reduce_scatter, text);
    Simulator simulator(ranks, awkward_machine());
    simulator.run([&](int rank, Endpoint net) { return carry_out(net, checked.args(rank), expression); });
    std::vector<Block> results;
    for (int rank = 0; rank < ranks; ++rank) results.push_back(checked.result_of(rank));
    return results;
  }
  // What all ranks have for block `block`.
  static std::vector<Block> inputs(int ranks, int block) {
    CheckedCalls checked = make(ranks);
    std::vector<Block> inputs;
    for (int rank = 0; rank < ranks; ++rank) {
      const Call call = checked.args(rank);
      const ConstVector input = call.input_blocks.block_of(call.input, block, ranks);
      inputs.emplace_back(input.count);
      if (input.count > 0) std::memcpy(inputs.back().data(), input.data, input.bytes());
    }
    return inputs;
  }
  static Block combined(const Block& left, Block right) {
    reduction(Operation::weave).host->combine(left.data(), right.data(), right.size());
    return right;
  }

 private:
  static CheckedCalls make(int ranks) {
    return CheckedCalls(
        ranks, {.collective = Collective::reduce_scatter, .count = 5, .operation = Operation::weave});
  }
};

TEST_F(ReduceScatterOrder, RingBeginsWithTheNextRank) {
  constexpr int p = 7;
  const std::vector<Block> results = this->results("ring", p);
  for (int block = 0; block < p; ++block) {
    const std::vector<Block> inputs = this->inputs(p, block);
    Block expected = inputs[static_cast<std::size_t>((block + 1) % p)];
    for (int k = 2; k <= p; ++k)
      expected = combined(expected, inputs[static_cast<std::size_t>((block + k) % p)]);
    EXPECT_EQ(results[static_cast<std::size_t>(block)], expected) << block;
  }
}

TEST_F(ReduceScatterOrder, PairwiseGoesBackFromTheOwner) {
  constexpr int p = 7;
  const std::vector<Block> results = this->results("pairwise", p);
  for (int block = 0; block < p; ++block) {
    const std::vector<Block> inputs = this->inputs(p, block);
    Block expected = inputs[static_cast<std::size_t>(block)];
    for (int k = 1; k < p; ++k)
      expected = combined(expected, inputs[static_cast<std::size_t>((block + p - k) % p)]);
    EXPECT_EQ(results[static_cast<std::size_t>(block)], expected) << block;
  }
}

TEST_F(ReduceScatterOrder, RecursiveHalvingHasOneTreeForAllBlocks) {
  constexpr std::size_t p = 8;
  const std::vector<Block> results = this->results("recursive_halving", p);
  for (std::size_t block = 0; block < p; ++block) {
    std::vector<Block> partial = inputs(p, static_cast<int>(block));
    for (std::size_t distance = p / 2; distance > 0; distance /= 2) {
      for (std::size_t k = 0; k < distance; ++k) partial[k] = combined(partial[k], partial[k + distance]);
    }
    EXPECT_EQ(results[block], partial[0]) << block;
  }
}

TEST_F(ReduceScatterOrder, RecursiveSplittingCombinesGroupsInRankOrder) {
  constexpr std::size_t p = 9;
  const std::vector<Block> results = this->results("recursive_splitting(3)", p);
  for (std::size_t block = 0; block < p; ++block) {
    std::vector<Block> partial = inputs(p, static_cast<int>(block));
    for (const std::size_t distance : {3, 1}) {
      for (std::size_t k = 0; k < distance; ++k)
        partial[k] = combined(combined(partial[k], partial[k + distance]), partial[k + 2 * distance]);
    }
    EXPECT_EQ(results[block], partial[0]) << block;
  }
}

}  // namespace
}  // namespace offbeat
