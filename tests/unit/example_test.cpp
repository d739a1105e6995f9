// SPDX-License-Identifier: BSD-3-Clause
// The algorithm of docs/how-to/add-an-algorithm.md is right. Including it is what its line in CMakeLists.txt
// would do.
#include <gtest/gtest.h>

#include "collectives/allreduce/allreduce.hpp"
#include "vectors.hpp"

namespace offbeat::allreduce_algorithms {
extern const Algorithm chain;  // the line in allreduce.hpp
}  // namespace offbeat::allreduce_algorithms

#include "examples/algorithm/chain.cpp"

namespace offbeat {
namespace {

const Expression chain = [] {
  Expression expression;
  expression.algorithm = &allreduce_algorithms::chain;
  return expression;
}();

class Example : public testing::TestWithParam<int> {};

TEST_P(Example, IsExactAndHasTheSameBitsEverywhere) { expect_exact_and_the_same_bits(chain, GetParam()); }

INSTANTIATE_TEST_SUITE_P(Chain, Example, testing::ValuesIn(rank_counts), testing::PrintToStringParamName());

TEST(ExampleCost, IsWhatItsHeaderSays) {
  constexpr double a = 2e-6;
  constexpr double b = 1e-9;
  constexpr double c = 3e-10;
  constexpr std::size_t n = 1 << 16;
  const Reduction sum(ElementType::uint8, ReduceOp::sum);
  const Vector data{nullptr, n, 1};
  Simulator simulator(12, {.inter_alpha = a, .inter_beta = b, .gamma = c}, {.phantom = true});
  const auto make = [&](int, Endpoint net) {
    return carry_out(net, {Collective::allreduce, data, data, &sum}, chain);
  };
  EXPECT_NEAR(simulator.run(make).last_delay(), 11 * (2 * a + 2 * n * b + n * c), 1e-12);
}

}  // namespace
}  // namespace offbeat
