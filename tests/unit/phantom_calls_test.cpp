// SPDX-License-Identifier: BSD-3-Clause
// The calls of offbeat simulate: every algorithm of every collective runs with them, and takes the time that
// it takes with data.
#include "simulator/phantom_calls.hpp"

#include <gtest/gtest.h>

#include <optional>
#include <string>
#include <vector>

#include "base/error.hpp"
#include "checked_calls.hpp"
#include "collectives/repertoire.hpp"

namespace offbeat {
namespace {

constexpr SimulatedMachine machine{.intra_alpha = 1e-6,
                                   .intra_beta = 1e-9,
                                   .inter_alpha = 2e-6,
                                   .inter_beta = 2e-9,
                                   .gamma = 1e-10,
                                   .copy = 1e-10,
                                   .ranks_per_node = 4};

std::vector<double> exits(Collective collective, const Expression& expression, int ranks, bool with_data) {
  constexpr std::size_t count = 1000;
  const PhantomCalls phantoms(collective, count * sizeof(Bits), ranks);
  std::optional<CheckedCalls> checked;
  if (with_data) checked.emplace(ranks, Case{collective, count});
  const bool on_board = expression.algorithm->needs.board == OnBoard::one_node;
  Simulator simulator(ranks, machine,
                      {.phantom = !with_data, .board_window_bytes = on_board ? std::size_t{65536} : 0});
  const auto make = [&](int rank, Endpoint net) {
    const Call call = phantoms.call_of_rank(rank);
    if (!with_data) return carry_out(net, call, expression);
    const Call real = checked->args(rank);
    EXPECT_EQ(call.input.bytes(), real.input.bytes());
    EXPECT_EQ(call.output.bytes(), real.output.bytes());
    return carry_out(net, real, expression);
  };
  return simulator.run(make, {}, expression.lanes()).exits;
}

// Each algorithm without arguments, on several nodes or, if it works on the board, on one.
template <class Check>
void for_each_algorithm(Collective collective, Check&& check) {
  for (const Algorithm* algorithm : repertoire(collective).algorithms) {
    if (algorithm->run == nullptr || !algorithm->parameters.empty()) continue;
    SCOPED_TRACE(std::string(name_of(collective)) + " by " + std::string(algorithm->name));
    const Expression expression = parse_expression(collective, algorithm->name);
    check(expression, algorithm->needs.board == OnBoard::one_node ? 4 : 11);
  }
}

// In CheckedCalls their blocks are not of one length, and a barrier has no data.
constexpr Collectives with_lists{Collective::allgatherv, Collective::alltoallv, Collective::reduce_scatter,
                                 Collective::gatherv,    Collective::scatterv,  Collective::barrier};

TEST(PhantomCalls, TakeTheTimeOfCallsWithData) {
  for (std::size_t k = 0; k < collectives.size(); ++k) {
    const Collective collective = collective_at(k);
    if (!served_collectives.contain(collective) || with_lists.contain(collective)) continue;
    for_each_algorithm(collective, [&](const Expression& expression, int ranks) {
      EXPECT_EQ(exits(collective, expression, ranks, false), exits(collective, expression, ranks, true));
    });
  }
}

TEST(PhantomCalls, HaveListsWhereACallHas) {
  for (std::size_t k = 0; k < collectives.size(); ++k) {
    const Collective collective = collective_at(k);
    if (!with_lists.contain(collective)) continue;
    for_each_algorithm(collective, [&](const Expression& expression, int ranks) {
      for (const double time : exits(collective, expression, ranks, false)) EXPECT_GT(time, 0);
    });
  }
}

TEST(PhantomCalls, RefuseWhatCannotBe) {
  EXPECT_THROW(PhantomCalls(Collective::allreduce, 6, 4), UsageError);
  EXPECT_THROW(PhantomCalls(Collective::alltoallw, 8, 4), UsageError);
}

}  // namespace
}  // namespace offbeat
