// SPDX-License-Identifier: BSD-3-Clause
// arrival_direct, reduce by arrival_tree, and calls by arrival_shares, on the board of one node x rank counts
// x roots x lengths of one and of several rounds, or fillings of a channel, x in place x adversarial timing,
// in the simulator; small calls in their immediate form, too.
#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <tuple>
#include <vector>

#include "checked_calls.hpp"
#include "collectives/board/arrival_direct.hpp"

namespace offbeat {
namespace {

// From each giver to each taker: blocks that go to nobody else, and are not combined.
bool has_channels(Collective collective) {
  const Roles who = roles_of(collective);
  return (who.is_personalised || who.root_takes) && !facts_of(collective).has_operation;
}

class OnBoardOfOneNode : public testing::TestWithParam<std::tuple<Collective, int>> {};

TEST_P(OnBoardOfOneNode, IsRight) {
  const auto& [collective, ranks] = GetParam();
  const Algorithm* algorithm = expression_on_board(collective).algorithm;
  ASSERT_NE(algorithm, nullptr);
  SimulatedMachine machine = awkward_machine();
  machine.ranks_per_node = ranks;
  Algorithm without_immediate = *algorithm;
  without_immediate.immediate = nullptr;
  for (const Algorithm* form : {algorithm, static_cast<const Algorithm*>(&without_immediate)}) {
    // These long forms begin with the immediate one.
    if (form->immediate == nullptr && has_unknown_length(collective)) continue;
    Expression expression;
    expression.algorithm = form;
    expect_right_calls(collective, expression, ranks, machine, BoardShape::smallest_chunk);
    if (!has_channels(collective)) continue;
    // The least window that has room for a channel for each rank: some are filled again and again.
    const auto channels = static_cast<std::size_t>(std::max(ranks - 1, 1));
    expect_right_calls(collective, expression, ranks, machine, 2 * channels * BoardShape::smallest_chunk);
  }
}

std::string name_of_case(const testing::TestParamInfo<std::tuple<Collective, int>>& info) {
  return std::string(name_of(std::get<0>(info.param))) + "_on_" + std::to_string(std::get<1>(info.param));
}

INSTANTIATE_TEST_SUITE_P(Board, OnBoardOfOneNode,
                         testing::Combine(testing::ValuesIn(checked_collectives),
                                          testing::ValuesIn(rank_counts)),
                         name_of_case);

class Shares : public testing::TestWithParam<std::tuple<Collective, int>> {};

TEST_P(Shares, AreRight) {
  const auto& [collective, ranks] = GetParam();
  const Expression expression = parse_expression(collective, "arrival_shares");
  Algorithm without_immediate = *expression.algorithm;
  without_immediate.immediate = nullptr;
  SimulatedMachine machine = awkward_machine();
  machine.ranks_per_node = ranks;
  for (const Algorithm* form : {expression.algorithm, static_cast<const Algorithm*>(&without_immediate)}) {
    if (form->immediate == nullptr && form != &without_immediate) continue;
    Expression one;
    one.algorithm = form;
    expect_right_calls(collective, one, ranks, machine, BoardShape::smallest_chunk);
  }
}

constexpr Collective combined_by_shares[] = {Collective::reduce, Collective::reduce_scatter,
                                             Collective::reduce_scatter_block};

INSTANTIATE_TEST_SUITE_P(Board, Shares,
                         testing::Combine(testing::ValuesIn(combined_by_shares),
                                          testing::ValuesIn(rank_counts)),
                         name_of_case);

// With 13, 21 or 65 ranks, the groups that pass results on are not parts of those of the level above.
TEST(SharesOfCalls, OfManyRanksAreRight) {
  for (const Collective collective : combined_by_shares) {
    const Expression expression = parse_expression(collective, "arrival_shares");
    for (const int ranks : {13, 21, 65, 80}) {
      // More lines than ranks.
      const std::size_t count =
          collective == Collective::reduce ? 2000 : 2000 / static_cast<std::size_t>(ranks);
      SimulatedMachine machine = awkward_machine();
      machine.ranks_per_node = ranks;
      for (const int root : roots_of(collective, ranks)) {
        CheckedCalls checked(ranks, {collective, count, root, Operation::weave});
        std::vector<std::vector<Bits>> reference;
        for (const std::uint64_t seed : {0, 1, 2}) {
          checked.clear();
          SimulationOptions options{.board_window_bytes = 2 * BoardShape::smallest_chunk};
          if (seed > 0) options.adversary = Adversary{seed};
          Simulator simulator(ranks, machine, options);
          const auto make = [&](int rank, Endpoint net) {
            return carry_out(net, checked.args(rank), expression);
          };
          simulator.run(make);
          EXPECT_EQ(checked.problem(reference), "")
              << name_of(collective) << ", " << ranks << " ranks, root " << root << ", seed " << seed;
        }
      }
    }
  }
}

TEST(Channels, ALateRankHoldsUpOnlyWhatItGivesAndTakes) {
  constexpr std::size_t window = 4 * BoardShape::smallest_chunk;
  const std::vector<double> arrivals{0, 0, 1};
  for (const Collective collective :
       {Collective::gather, Collective::scatter, Collective::gatherv, Collective::scatterv}) {
    CheckedCalls checked(3, {collective, 8 * window / sizeof(Bits)});
    Expression expression;
    expression.algorithm = expression_on_board(collective).algorithm;
    SimulatedMachine machine = awkward_machine();
    machine.ranks_per_node = 3;
    Simulator simulator(3, machine, {.board_window_bytes = window});
    const auto make = [&](int rank, Endpoint net) { return carry_out(net, checked.args(rank), expression); };
    const SimulationResult result = simulator.run(make, arrivals);
    std::vector<std::vector<Bits>> reference;
    EXPECT_EQ(checked.problem(reference), "");
    EXPECT_LT(result.exits[1], 1) << name_of(collective) << ": a block goes through a window eight times";
  }
}

}  // namespace
}  // namespace offbeat
