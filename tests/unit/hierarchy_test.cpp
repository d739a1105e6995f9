// SPDX-License-Identifier: BSD-3-Clause
// The hierarchy and the lanes of every collective but barrier and allreduce, with every algorithm of
// messages between the nodes x rank counts x ways to place ranks on nodes x roots x lengths x in place x
// adversarial timing, in the simulator. Calls follow one another on the same boards, and ranks come late.
// barrier_test.cpp has that of barrier, board_test.cpp that of allreduce; here is what an allreduce does on
// nodes without boards, with long vectors, and how lanes share what a leader carries.
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <map>
#include <random>
#include <string>
#include <tuple>
#include <vector>

#include "checked_calls.hpp"
#include "collectives/repertoire.hpp"
#include "node/board_awaitables.hpp"
#include "node/membership.hpp"
#include "node_shapes.hpp"

namespace offbeat {
namespace {

constexpr std::size_t tiny_window = BoardShape::smallest_chunk;

std::string node_algorithm_of(Collective collective) {
  for (const Algorithm* algorithm : repertoire(collective).algorithms) {
    if (algorithm->needs.board == OnBoard::one_node) return std::string(algorithm->name);
  }
  return "";
}

using Named = std::tuple<Collective, std::string>;

// Those that have phases on the nodes and between them: "hierarchy(arrival_direct, ".
std::vector<std::string> beginnings(Collective collective) {
  std::vector<std::string> all;
  for (const Algorithm* algorithm : repertoire(collective).algorithms) {
    if (std::ranges::find(algorithm->parameters, Parameter::node_algorithm) != algorithm->parameters.end())
      all.push_back(std::string(algorithm->name) + "(" + node_algorithm_of(collective) + ", ");
  }
  return all;
}

// From the registry: a new algorithm is tested without being named here.
std::vector<Named> hierarchies() {
  std::vector<Named> all;
  for (const Collective collective : checked_collectives) {
    if (collective == Collective::allreduce) continue;
    for (const Algorithm* algorithm : repertoire(collective).algorithms) {
      std::string name(algorithm->name);
      if (algorithm->run == nullptr || algorithm->needs.board != OnBoard::no) continue;
      if (std::ranges::equal(algorithm->parameters, std::array{Parameter::radix})) {
        name += "(3)";
      } else if (!algorithm->parameters.empty()) {
        const bool has_chain = std::ranges::any_of(
            repertoire(collective).algorithms, [](const Algorithm* each) { return each->name == "chain"; });
        name += has_chain ? "(3, chain)" : "(3, ring)";
      }
      for (const std::string& beginning : beginnings(collective))
        all.emplace_back(collective, beginning + name + ")");
    }
  }
  return all;
}

// One call of a sequence, and the bits that the same call had before.
struct Made {
  CheckedCalls checked;
  std::vector<std::vector<Bits>>* reference;
};

// Carries out calls on the same boards, which ranks begin early or late.
Task several(Simulator& simulator, Endpoint net, std::vector<Made>& calls, const Expression& expression,
             const std::vector<double>& delays) {
  for (std::size_t k = 0; k < calls.size(); ++k) {
    const std::size_t index = static_cast<std::size_t>(net.rank) * calls.size() + k;
    co_await simulator.pause(net.rank, delays[index]);
    co_await carry_out(net, calls[k].checked.args(net.rank), expression);
  }
}

using References = std::map<std::tuple<std::size_t, int, Operation>, std::vector<std::vector<Bits>>>;

void run_and_check(const std::vector<Case>& cases, const Expression& expression, int ranks,
                   const std::vector<int>& node_of_rank, std::uint64_t seed, std::size_t window,
                   References& references) {
  std::mt19937_64 random(seed * 7919 + static_cast<std::uint64_t>(ranks));
  std::vector<Made> calls;
  for (const Case& each : cases) {
    calls.push_back({CheckedCalls(ranks, each), &references[{each.count, each.root, each.operation}]});
  }
  // From far less than what a collective takes to far more.
  std::uniform_real_distribution<double> exponent(-8, -4);
  std::vector<double> delays(calls.size() * static_cast<std::size_t>(ranks));
  for (double& delay : delays) delay = std::pow(10, exponent(random));
  SimulatedMachine machine = awkward_machine();
  machine.node_of_rank = node_of_rank;
  SimulationOptions options{.board_window_bytes = window};
  if (seed > 0) options.adversary = Adversary{seed};  // 0: no adversary
  Simulator simulator(ranks, machine, options);
  simulator.run([&](int, Endpoint net) { return several(simulator, net, calls, expression, delays); }, {},
                expression.lanes());
  for (const Made& call : calls) ASSERT_EQ(call.checked.problem(*call.reference), "");
}

class EveryHierarchy : public testing::TestWithParam<std::tuple<Named, int>> {};

TEST_P(EveryHierarchy, IsRight) {
  const Named& named = std::get<Named>(GetParam());
  const int ranks = std::get<int>(GetParam());
  const Collective collective = std::get<Collective>(named);
  const std::string text = std::get<std::string>(named);
  const Expression expression = parse_expression(collective, text);
  constexpr std::size_t counts[] = {1, 7, 0, 100, 2, 1100};  // of ints; a window has 1024
  const bool combines = facts_of(collective).has_operation;
  for (const NodeShape& shape : node_shapes) {
    SCOPED_TRACE(shape.name);
    if (ranks > 17 && shape.is_small) continue;
    const std::vector<int> node_of_rank = shape.of(ranks);
    const Placement placement = placement_of(membership_of(node_of_rank));
    if (!expression.why_unsuitable(placement).empty()) {
      EXPECT_FALSE(placement.in_rank_order && placement.equal_nodes);
      continue;
    }
    References references;
    for (std::uint64_t seed = 0; seed < 3; ++seed) {
      SCOPED_TRACE("seed " + std::to_string(seed));
      std::vector<Case> cases;
      const auto add = [&](std::size_t count, int root, std::size_t variant) {
        if (count > 1000 && ranks > 9) count = 300;
        const auto exact = is_prefix(collective) ? Operation::compose : Operation::int_sum;
        const auto operation = combines && variant % 2 == 0 ? Operation::weave : exact;
        const bool in_place = works_in_place(collective, expression) && (variant / 2 + seed) % 2 == 0;
        cases.push_back({collective, count, root, operation, in_place});
      };
      for (std::size_t k = 0; k < std::size(counts); ++k) {
        for (const std::size_t variant : {2 * k, 2 * k + 1}) add(counts[k], 0, variant);
      }
      for (const int root : roots_of(collective, ranks)) {
        const auto variant = static_cast<std::size_t>(root);
        if (root > 0) add(counts[variant % std::size(counts)], root, variant);
      }
      std::mt19937_64 random(seed);
      std::ranges::shuffle(cases, random);
      run_and_check(cases, expression, ranks, node_of_rank, seed, tiny_window, references);
      if (testing::Test::HasFatalFailure()) return;
    }
  }
}

std::string name_of_case(const testing::TestParamInfo<std::tuple<Named, int>>& info) {
  const auto& [named, ranks] = info.param;
  return std::string(name_of(std::get<0>(named))) + "_" + test_name(std::get<1>(named), ranks);
}

INSTANTIATE_TEST_SUITE_P(Nodes, EveryHierarchy,
                         testing::Combine(testing::ValuesIn(hierarchies()), testing::ValuesIn(rank_counts)),
                         name_of_case);

class NodesWithoutBoards : public testing::TestWithParam<std::tuple<std::string, int>> {};

TEST_P(NodesWithoutBoards, AreRight) {
  const auto& [text, ranks] = GetParam();
  const Expression expression = parse_expression(Collective::allreduce, text);
  for (const NodeShape& shape : node_shapes) {
    SCOPED_TRACE(shape.name);
    References references;
    for (std::uint64_t seed = 0; seed < 5; ++seed) {
      SCOPED_TRACE("seed " + std::to_string(seed));
      std::vector<Case> cases;
      for (const std::size_t count : {0u, 1u, 7u, 100u}) {
        for (const auto operation : {Operation::int_sum, Operation::weave})
          cases.push_back({Collective::allreduce, count, 0, operation, seed % 2 == 0});
      }
      std::mt19937_64 random(seed);
      std::ranges::shuffle(cases, random);
      run_and_check(cases, expression, ranks, shape.of(ranks), seed, 0, references);
      if (testing::Test::HasFatalFailure()) return;
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Allreduce, NodesWithoutBoards,
                         testing::Combine(testing::Values("nap", "smp"), testing::ValuesIn(rank_counts)),
                         readable);

// Several segments, more than are in flight at once, each of several rounds on the board.
class LongVectors : public testing::TestWithParam<Named> {};

TEST_P(LongVectors, AreRight) {
  const Collective collective = std::get<Collective>(GetParam());
  const Expression expression = parse_expression(collective, std::get<std::string>(GetParam()));
  for (const NodeShape& shape : node_shapes) {
    SCOPED_TRACE(shape.name);
    const auto expect_right = [&](int ranks, std::size_t count, std::size_t window) {
      if (!expression.why_unsuitable(placement_of(membership_of(shape.of(ranks)))).empty()) return;
      References references;
      for (const std::uint64_t seed : {0, 1, 2, 3}) {
        const bool is_last = seed % 2 == 1;
        std::vector<Case> cases;
        const int root = facts_of(collective).has_root && is_last ? ranks - 1 : 0;
        for (const bool in_place : {false, works_in_place(collective, expression)})
          cases.push_back({collective, count, root, Operation::weave, in_place});
        run_and_check(cases, expression, ranks, shape.of(ranks), seed, window, references);
      }
    };
    expect_right(6, 13'000, tiny_window);
    expect_right(3, 400'000, 16 * tiny_window);
    if (collective == Collective::allreduce) expect_right(13, 200'000, 128 * tiny_window);
  }
}

std::vector<Named> of_long_vectors() {
  return {{Collective::bcast, "hierarchy(arrival_direct, binomial)"},
          {Collective::bcast, "hierarchy(arrival_direct, pipeline(2, chain))"},
          {Collective::bcast, "lanes(arrival_direct, binomial)"},
          {Collective::bcast, "lanes(arrival_direct, pipeline(2, chain))"},
          {Collective::reduce, "hierarchy(arrival_tree, binomial)"},
          {Collective::reduce, "hierarchy(arrival_tree, pipeline(2, chain))"},
          {Collective::reduce, "lanes(arrival_tree, binomial)"},
          {Collective::reduce, "lanes(arrival_tree, pipeline(2, chain))"},
          {Collective::reduce_scatter, "hierarchy(arrival_direct, ring)"},
          {Collective::reduce_scatter, "hierarchy(arrival_direct, recursive_splitting(3))"},
          {Collective::reduce_scatter, "lanes(arrival_shares, recursive_halving)"},
          {Collective::reduce_scatter, "lanes(arrival_shares, recursive_splitting(4))"},
          {Collective::reduce_scatter, "lanes(arrival_shares, pipeline(2, ring))"},
          {Collective::allgather, "hierarchy(arrival_direct, ring)"},
          {Collective::allgather, "hierarchy(arrival_direct, pipeline(2, linear))"},
          {Collective::allgather, "hierarchy(arrival_direct, bruck)"},
          {Collective::allgatherv, "hierarchy(arrival_direct, ring)"},
          {Collective::scan, "hierarchy(arrival_prefix, recursive_doubling)"},
          {Collective::exscan, "hierarchy(arrival_prefix, pipeline(2, chain))"},
          {Collective::allreduce, "hierarchy(arrival_tree, ring)"},
          {Collective::allreduce, "lanes(arrival_tree, ring)"},
          {Collective::allreduce, "lanes(arrival_tree, pipeline(2, recursive_doubling))"}};
}

INSTANTIATE_TEST_SUITE_P(Nodes, LongVectors, testing::ValuesIn(of_long_vectors()), [](const auto& info) {
  return std::string(name_of(std::get<0>(info.param))) + "_" + test_name(std::get<1>(info.param), 6);
});

class Lanes : public testing::Test {
 protected:
  // Nodes on which all but the messages between them takes no time.
  static double time_of(const std::string& text, const std::vector<int>& node_of_rank, std::size_t bytes,
                        Collective collective = Collective::allreduce) {
    const Expression expression = parse_expression(collective, text);
    const Reduction sum(ElementType::uint8, ReduceOp::sum);
    const Call call{collective, {nullptr, bytes, 1}, {nullptr, bytes, 1}, &sum};
    const SimulatedMachine machine{.inter_beta = 1e-9, .line = 0, .node_of_rank = node_of_rank};
    Simulator simulator(static_cast<int>(node_of_rank.size()), machine,
                        {.phantom = true, .board_window_bytes = std::size_t{1} << 20});
    return simulator
        .run([&](int, Endpoint net) { return carry_out(net, call, expression); }, {}, expression.lanes())
        .last_delay();
  }
};

// Each more would cost its messages, and vectors of less than two gain nothing by it.
TEST_F(Lanes, CutVectorsIntoSegmentsOf32KiBAndMore) {
  const Expression expression = parse_expression(Collective::allreduce, "hierarchy(arrival_tree, binomial)");
  const Reduction sum(ElementType::uint8, ReduceOp::sum);
  const auto messages_of = [&](std::size_t bytes) {
    const Call call{Collective::allreduce, {nullptr, bytes, 1}, {nullptr, bytes, 1}, &sum};
    Simulator simulator(4, {.line = 0, .ranks_per_node = 2},
                        {.phantom = true, .board_window_bytes = std::size_t{1} << 20});
    const auto make = [&](int, Endpoint net) { return carry_out(net, call, expression); };
    return simulator.run(make, {}, expression.lanes()).inter_node_messages;
  };
  constexpr std::size_t kib = 1024;
  constexpr std::uint64_t of_one_segment = 2;  // there and back
  EXPECT_EQ(messages_of(1), of_one_segment);
  EXPECT_EQ(messages_of(8 * kib), of_one_segment);
  EXPECT_EQ(messages_of(64 * kib - 1), of_one_segment);
  EXPECT_EQ(messages_of(64 * kib), 2 * of_one_segment);
  EXPECT_EQ(messages_of(128 * kib), 4 * of_one_segment);
  EXPECT_EQ(messages_of(1024 * kib), 4 * of_one_segment);
}

TEST_F(Lanes, ShareWhatTheLeaderCarriesAlone) {
  constexpr std::size_t n = std::size_t{4} << 20;
  for (const char* algorithm : {"ring", "rabenseifner"}) {
    for (const int ranks_per_node : {2, 4, 8, 16}) {
      SCOPED_TRACE(std::string(algorithm) + ", " + std::to_string(ranks_per_node) + " ranks on each node");
      std::vector<int> nodes;
      for (int rank = 0; rank < 4 * ranks_per_node; ++rank) nodes.push_back(rank % 4);
      const std::string parts = std::string("(arrival_tree, ") + algorithm + ")";
      EXPECT_NEAR(time_of("lanes" + parts, nodes, n) * ranks_per_node, time_of("hierarchy" + parts, nodes, n),
                  1e-12);
    }
  }
}

TEST_F(Lanes, OfABroadcastShareWhatTheLeaderCarriesAlone) {
  constexpr std::size_t n = std::size_t{16} << 20;
  for (const int ranks_per_node : {2, 4, 8}) {
    SCOPED_TRACE(std::to_string(ranks_per_node) + " ranks on each node");
    std::vector<int> nodes;
    for (int rank = 0; rank < 4 * ranks_per_node; ++rank) nodes.push_back(rank % 4);
    const double leader = time_of("hierarchy(arrival_direct, binomial)", nodes, n, Collective::bcast);
    const double shared = time_of("lanes(arrival_direct, binomial)", nodes, n, Collective::bcast);
    EXPECT_NEAR(shared * ranks_per_node, leader, 1e-9 * leader);
  }
}

// Every lane, not only that of the leaders.
TEST_F(Lanes, LearnWhichNodeIsLate) {
  constexpr int ranks = 12;
  const auto expression = parse_expression(Collective::allreduce, "lanes(arrival_tree, arrival_owners)");
  const SimulatedMachine machine{.inter_alpha = 1e-5, .inter_beta = 1e-9, .line = 0, .ranks_per_node = 3};
  Simulator simulator(ranks, machine, {.board_window_bytes = std::size_t{4} << 20, .learns = true});
  std::vector<double> arrivals(ranks);
  for (int rank = 3; rank < 6; ++rank) arrivals[static_cast<std::size_t>(rank)] = 0.1;
  Vectors vectors(ranks, {std::size_t{1} << 20, Operation::weave});
  std::vector<Bits> reference;
  std::vector<double> delays;
  for (int call = 0; call < 2; ++call) {
    vectors.clear(false);
    const auto make = [&](int rank, Endpoint net) { return carry_out(net, vectors.args(rank), expression); };
    delays.push_back(simulator.run(make, arrivals, expression.lanes()).last_delay());
    EXPECT_EQ(vectors.problem(reference), "") << "call " << call;
  }
  EXPECT_LT(delays[1], 0.8 * delays[0]);
  for (const int rank : {0, 1, 2}) {
    simulator.lateness(rank).begin_call();
    EXPECT_EQ(simulator.lateness(rank).on_time(4), (pool::List<int>{0, 2, 3})) << "rank " << rank;
  }
}

TEST_F(Lanes, AreAsManyAsTheSmallestNodeHasRanks) {
  constexpr std::size_t n = std::size_t{1} << 20;
  const double leader = time_of("hierarchy(arrival_tree, ring)", {0, 0, 0, 0, 1, 1, 1, 1}, n);
  EXPECT_NEAR(time_of("lanes(arrival_tree, ring)", {0, 0, 0, 0, 0, 0, 1, 1}, n), leader / 2, 1e-12);
  EXPECT_NEAR(time_of("lanes(arrival_tree, ring)", {0, 0, 0, 0, 1}, n), leader, 1e-12);
}

}  // namespace
}  // namespace offbeat
