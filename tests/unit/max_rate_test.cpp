// SPDX-License-Identifier: BSD-3-Clause
// The formulas of models/max_rate.hpp against the simulator, and the claims of paper 3 that follow from them.
#include "models/max_rate.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <string>

#include "collectives/algorithm.hpp"
#include "simulator/phantom_calls.hpp"
#include "simulator/simulator.hpp"

namespace offbeat::max_rate {
namespace {

constexpr double unlimited = std::numeric_limits<double>::infinity();
constexpr std::size_t eager_bytes = 8192;

// Blue Waters (simulate/machines/blue_waters.toml), a node that sends little more than one of its ranks, and
// one without a limit, whose messages have an envelope.
constexpr Rates machines[] = {
    {0.5375e-6, 1 / 1.175e9, 2.3e-6, 1 / 1.3e9, 6.6e9, 0.3e-9},
    {1e-6, 1e-10, 1.1e-6, 1e-10, 12e9, 2e-9},
    {0.3e-6, 1e-9, 5e-6, 2e-9, unlimited, 0, 16},
};

double simulated(const std::string& text, const Rates& rates, Shape shape, std::size_t bytes) {
  const SimulatedMachine machine{.intra_alpha = rates.node_alpha,
                                 .intra_beta = rates.node_beta,
                                 .inter_alpha = rates.alpha,
                                 .inter_beta = rates.beta,
                                 .injection_rate = rates.injection_rate,
                                 .gamma = rates.gamma,
                                 .envelope_bytes = rates.envelope_bytes,
                                 .eager_bytes = eager_bytes,
                                 .ranks_per_node = shape.ranks_per_node};
  const int ranks = shape.nodes * shape.ranks_per_node;
  const Expression expression = parse_expression(Collective::allreduce, text);
  const PhantomCalls calls(Collective::allreduce, bytes, ranks);
  Simulator simulator(ranks, machine, {.phantom = true});
  return simulator
      .run([&](int rank, Endpoint net) { return carry_out(net, calls.call_of_rank(rank), expression); }, {},
           expression.lanes())
      .last_exit;
}

class Formula : public testing::TestWithParam<std::string> {};

TEST_P(Formula, IsWithinOnePercentOfTheSimulator) {
  for (const Rates& rates : machines) {
    for (const int ranks_per_node : {1, 2, 4, 8, 16, 32}) {
      for (const int nodes : {1, 2, 4, 8, 16, 32, 64, 256}) {
        for (const std::size_t bytes : {std::size_t{8}, std::size_t{512}, std::size_t{2048}, eager_bytes}) {
          const Shape shape{nodes, ranks_per_node};
          const double time = simulated(GetParam(), rates, shape, bytes);
          ASSERT_NEAR(*allreduce(GetParam(), rates, shape, bytes), time, 0.01 * time)
              << nodes << " nodes of " << ranks_per_node << " ranks, " << bytes << " bytes";
        }
      }
    }
  }
}

INSTANTIATE_TEST_SUITE_P(MaxRate, Formula, testing::Values("recursive_doubling", "smp", "nap"),
                         [](const auto& info) { return info.param; });

// Equations 4 and 6, where ours say the same: with nodes a power of the ranks on each. Equation 5 leaves out
// the broadcast, and equation 6 lets every rank of a node send and combine once more than it must.
TEST(MaxRate, HasTheEquationsOfThePaper) {
  const Rates& r = machines[0];
  const double n = 2048;
  const auto within = [&](double messages) { return messages * (r.node_alpha + n * r.node_beta); };
  const auto between = [&](double senders) {
    return r.alpha + senders * n / std::min(r.injection_rate, senders / r.beta);
  };
  const Shape shape{256, 16};
  const auto expect = [&](const char* algorithm, double time) {
    EXPECT_NEAR(*allreduce(algorithm, r, shape, 2048), time, 1e-12) << algorithm;
  };
  expect("recursive_doubling", within(4) + 8 * between(16) + 12 * r.gamma * n);
  expect("smp", within(4) + within(4) + 8 * between(1) + 12 * r.gamma * n);
  expect("nap", within(12) + 2 * between(15) + 12 * r.gamma * n);
}

TEST(MaxRate, HasNoFormulaForOtherNumbersAndAlgorithms) {
  EXPECT_FALSE(allreduce("recursive_doubling", machines[0], {3, 16}, 8));
  EXPECT_FALSE(allreduce("nap", machines[0], {4, 12}, 8));
  EXPECT_FALSE(allreduce("ring", machines[0], {4, 4}, 8));
  EXPECT_TRUE(allreduce("smp", machines[0], {4, 4}, 8));
}

// Figure 10: with more nodes nap is further ahead. Figure 11: not with long messages.
TEST(MaxRate, NapIsForShortMessagesOnManyNodes) {
  const auto gain = [](const Rates& rates, int nodes, std::size_t bytes) {
    return *allreduce("smp", rates, {nodes, 16}, bytes) / *allreduce("nap", rates, {nodes, 16}, bytes);
  };
  double before = 1;
  for (const int nodes : {16, 256, 4096}) {
    EXPECT_GT(gain(machines[0], nodes, 8), before) << nodes;
    before = gain(machines[0], nodes, 8);
  }
  EXPECT_GT(gain(machines[0], 2048, 512), 1);
  constexpr Rates long_messages{1.9e-6, 1 / 6.2e9, 3e-6, 1 / 2.9e9, 6.6e9, 0.3e-9};
  EXPECT_LT(gain(long_messages, 2048, 1 << 16), 1);
}

}  // namespace
}  // namespace offbeat::max_rate
