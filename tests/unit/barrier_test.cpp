// SPDX-License-Identifier: BSD-3-Clause
// Every barrier x rank counts x ways to place ranks on nodes x adversarial timing, in the simulator: nobody
// leaves before all have come, for several in a row. The interleavings on the board are explored in
// board_test.cpp.
#include "collectives/barrier/barrier.hpp"

#include <gtest/gtest.h>

#include <array>
#include <cmath>
#include <string>
#include <tuple>
#include <vector>

#include "node/board.hpp"
#include "node_shapes.hpp"
#include "simulator/simulator.hpp"
#include "vectors.hpp"

namespace offbeat {
namespace {

constexpr std::size_t in_a_row = 4;
using Come = std::array<int, in_a_row>;

Task live(Endpoint net, const Expression& expression, Come& come, int& too_early) {
  for (std::size_t k = 0; k < in_a_row; ++k) {
    ++come[k];
    co_await carry_out(net, {Collective::barrier}, expression);
    if (come[k] < net.size) ++too_early;
  }
}

std::vector<std::string> names() {
  std::vector<std::string> all;
  for (const Algorithm* algorithm : barrier.algorithms) {
    if (algorithm->run != nullptr && algorithm->parameters.empty()) all.emplace_back(algorithm->name);
  }
  all.emplace_back("hierarchy(arrival_counter, dissemination)");
  return all;
}

class EveryBarrier : public testing::TestWithParam<std::tuple<std::string, int>> {};

TEST_P(EveryBarrier, LetsNobodyGoBeforeAllHaveCome) {
  const auto& [name, ranks] = GetParam();
  const Expression expression = parse_expression(Collective::barrier, name);
  const OnBoard board = expression.algorithm->needs.board;
  for (const NodeShape& shape : node_shapes) {
    if (&shape != &node_shapes.front() && board != OnBoard::every_node) break;  // the first has one node
    SCOPED_TRACE(shape.name);
    for (std::uint64_t seed = 1; seed <= 20; ++seed) {
      SimulationOptions options{.adversary = Adversary{seed}};
      if (board != OnBoard::no) options.board_window_bytes = BoardShape::smallest_chunk;
      Simulator simulator(ranks, {.node_of_rank = shape.of(ranks)}, options);
      Come come{};
      int too_early = 0;
      simulator.run([&](int, Endpoint net) { return live(net, expression, come, too_early); }, {},
                    expression.lanes());
      EXPECT_EQ(too_early, 0) << "seed " << seed;
      for (const int each : come) EXPECT_EQ(each, ranks);
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Barrier, EveryBarrier,
                         testing::Combine(testing::ValuesIn(names()), testing::ValuesIn(rank_counts)),
                         readable);

// The cost formula in its header, exactly.
TEST(Dissemination, TakesAsManyStepsAsTheLogarithm) {
  constexpr double a = 2e-6;
  const Expression expression = parse_expression(Collective::barrier, "dissemination");
  for (const int ranks : {2, 5, 8, 9, 64, 1000}) {
    Simulator simulator(ranks, {.inter_alpha = a, .inter_beta = 0, .eager_bytes = 64});
    const double delay =
        simulator.run([&](int, Endpoint net) { return carry_out(net, {Collective::barrier}, expression); })
            .last_delay();
    EXPECT_NEAR(delay, std::ceil(std::log2(ranks)) * a, 1e-12) << ranks << " ranks";
  }
}

}  // namespace
}  // namespace offbeat
