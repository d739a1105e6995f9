// SPDX-License-Identifier: BSD-3-Clause
// The cost formulas in the headers of the alltoall algorithms, exactly. collectives_test.cpp checks what they
// do.
#include <gtest/gtest.h>

#include <cmath>
#include <string>

#include "hockney.hpp"

namespace offbeat {
namespace {

class AlltoallCost : public Hockney {
 protected:
  static constexpr std::size_t block = 1 << 12;
  static constexpr double m = block;

  static double time_of(const std::string& text, int ranks) {
    const std::size_t all = block * static_cast<std::size_t>(ranks);
    return Hockney::time_of(Collective::alltoall, text, ranks, all, all);
  }
};

TEST_F(AlltoallCost, Pairwise) {
  for (const int p : {2, 7, 16}) EXPECT_NEAR(time_of("pairwise", p), (p - 1) * (a + m * b), 1e-12) << p;
}

TEST_F(AlltoallCost, BruckOfPowersOfTwo) {
  for (const int p : {2, 16, 64})
    EXPECT_NEAR(time_of("bruck", p), std::log2(p) * (a + p / 2 * m * b), 1e-12) << p;
}

TEST_F(AlltoallCost, BruckOfFive) {
  // Distances 1 and 3, then 2 and 3, then 4.
  EXPECT_NEAR(time_of("bruck", 5), 3 * a + (2 + 2 + 1) * m * b, 1e-12);
}

TEST_F(AlltoallCost, LinearHidesLatency) {
  for (const int p : {3, 8, 9}) EXPECT_NEAR(time_of("linear", p), a + (p - 1) * m * b, 1e-12) << p;
  EXPECT_LT(time_of("linear", 64), time_of("pairwise", 64) - 50 * a);
}

}  // namespace
}  // namespace offbeat
