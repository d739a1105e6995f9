// SPDX-License-Identifier: BSD-3-Clause
// The cost formulas in the headers of the allgather algorithms, exactly. collectives_test.cpp checks what
// they do.
#include <gtest/gtest.h>

#include <cmath>
#include <string>

#include "hockney.hpp"

namespace offbeat {
namespace {

class AllgatherCost : public Hockney {
 protected:
  static constexpr std::size_t block = 1 << 16;
  static constexpr double m = block;

  static double time_of(const std::string& text, int ranks) {
    return Hockney::time_of(Collective::allgather, text, ranks, block,
                            block * static_cast<std::size_t>(ranks));
  }
};

TEST_F(AllgatherCost, Ring) {
  for (const int p : {2, 7, 16}) EXPECT_NEAR(time_of("ring", p), (p - 1) * (a + m * b), 1e-12) << p;
}

TEST_F(AllgatherCost, RecursiveDoublingOfPowersOfTwo) {
  for (const int p : {2, 16, 64})
    EXPECT_NEAR(time_of("recursive_doubling", p), std::log2(p) * a + (p - 1) * m * b, 1e-12) << p;
}

// A rank may send its block before the other one is ready for it.
TEST_F(AllgatherCost, RecursiveDoublingWithASurplusRankAtMost) {
  EXPECT_LT(time_of("recursive_doubling", 3), 3 * a + (2 + 4) * m * b + 1e-12);
}

TEST_F(AllgatherCost, Bruck) {
  for (const int p : {2, 5, 16, 33})
    EXPECT_NEAR(time_of("bruck", p), std::ceil(std::log2(p)) * a + (p - 1) * m * b, 1e-12) << p;
}

TEST_F(AllgatherCost, NeighborExchange) {
  for (const int p : {2, 6, 16})
    EXPECT_NEAR(time_of("neighbor_exchange", p), p / 2 * a + (p - 1) * m * b, 1e-12) << p;
  EXPECT_NEAR(time_of("neighbor_exchange", 7), time_of("ring", 7), 1e-12);
}

TEST_F(AllgatherCost, LinearHidesLatency) {
  for (const int p : {3, 8}) EXPECT_NEAR(time_of("linear", p), a + (p - 1) * m * b, 1e-12) << p;
}

}  // namespace
}  // namespace offbeat
