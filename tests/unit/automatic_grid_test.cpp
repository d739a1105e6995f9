// SPDX-License-Identifier: BSD-3-Clause
// grid(auto): the machine file that it takes its shape from, and the plans that it becomes.
#include "collectives/automatic_grid.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <utility>

#include "base/error.hpp"
#include "selection/plan.hpp"
#include "selection/selection.hpp"

namespace offbeat {
namespace {

constexpr std::string_view small_machine = R"(name = "mine"
[core]
combine_ns_per_byte = 0.2
[within_node]
latency_us = 0.5
bandwidth_gb_per_s = 10
[between_nodes]
latency_us = 50
bandwidth_gb_per_s = 1
)";

std::string error_of(std::string_view text) {
  try {
    static_cast<void>(parse_machine("my.toml", text));
  } catch (const UsageError& error) {
    return error.what();
  }
  return "";
}

std::string with(const std::string& line) { return std::string(small_machine) + line + "\n"; }

TEST(MachineFile, TheBuiltInMachineIsThatOfPaper2) {
  const Machine& machine = built_in_machine();
  EXPECT_EQ(machine.name, "cluster");
  EXPECT_DOUBLE_EQ(machine.between_nodes.protocol(0).latency, 1.5e-6);
  EXPECT_DOUBLE_EQ(machine.between_nodes.protocol(1 << 20).per_byte, 6.25e-11);
  EXPECT_DOUBLE_EQ(machine.combine_per_byte, 2e-10);
  EXPECT_EQ(machine.between_nodes.eager_bytes, 8192U);
}

constexpr std::string_view detailed_machine = R"toml(# a comment
name = 'a # in quotes'   # another one
source = """
two lines = [of text]
"""
eager_limit_bytes = 65_536
[core]
combine_ns_per_byte = 1e-1
copy_ns_per_byte = 2  # not read here
[ within_node ]
latency_us = +0.5
bandwidth_gb_per_s = 10
eager_limit_bytes = 4096
[between_nodes]
latency_us = 2
bandwidth_gb_per_s = 1
node_bandwidth_gb_per_s = 2
send_overhead_us = 0.25
receive_overhead_us = 0.75
send_gap_us = 5
handshake_us = 3
[[ between_nodes . longer ]]
from_bytes = 8193
latency_us = 4
bandwidth_gb_per_s = 2
[[algorithm]]
expression = "ring"
latency_us = 7
bandwidth_gb_per_s = 4
[[algorithm]]
expression = "native(ring)"
mpi = "openmpi"
level = "within_node"
latency_us = 9
bandwidth_gb_per_s = 8
)toml";

TEST(MachineFile, HasWhatMessagesCost) {
  const Machine machine = parse_machine("", detailed_machine);
  EXPECT_EQ(machine.name, "a # in quotes");
  EXPECT_EQ(machine.within_node.eager_bytes, 4096U);
  EXPECT_EQ(machine.between_nodes.eager_bytes, 65536U);
  EXPECT_DOUBLE_EQ(machine.within_node.protocol(0).latency, 5e-7);
  EXPECT_DOUBLE_EQ(machine.between_nodes.protocol(8192).latency, 2e-6);
  EXPECT_DOUBLE_EQ(machine.between_nodes.protocol(8193).latency, 4e-6);
  EXPECT_DOUBLE_EQ(machine.between_nodes.send_overhead, 2.5e-7);
  EXPECT_DOUBLE_EQ(machine.between_nodes.handshake, 3e-6);
  EXPECT_DOUBLE_EQ(machine.node_per_byte, 5e-10);
  ASSERT_NE(machine.algorithm("ring", false), nullptr);
  EXPECT_DOUBLE_EQ(machine.algorithm("ring", false)->latency, 7e-6);
  EXPECT_EQ(machine.algorithm("ring", true), nullptr);
  ASSERT_NE(machine.algorithm("native(ring)", true), nullptr);
  EXPECT_EQ(machine.algorithm("native(ring)", true)->mpi, "openmpi");
}

TEST(MachineFile, AnErrorNamesFileLineAndKey) {
  const std::pair<std::string, std::string> cases[] = {
      {"", "my.toml: the table [between_nodes] is missing"},
      {with("latency_us = 3"), "my.toml:10: latency_us occurs twice"},
      {with("node_bandwidth_gb_per_s = 0"),
       "my.toml:10: between_nodes.node_bandwidth_gb_per_s: '0' is not a number from 1e-12 to 1e+12"},
      {with("handshake_us = fast"),
       "my.toml:10: between_nodes.handshake_us: 'fast' is not a number from 0 to 1e+12"},
      {with("handshake_us = -1"),
       "my.toml:10: between_nodes.handshake_us: '-1' is not a number from 0 to 1e+12"},
      {with("handshake_us = \"1\""),
       "my.toml:10: between_nodes.handshake_us: '1' is not a number from 0 to 1e+12"},
      {with("handshake_us = nan"),
       "my.toml:10: between_nodes.handshake_us: 'nan' is not a number from 0 to 1e+12"},
      {"eager_limit_bytes = 1.5", "my.toml:1: eager_limit_bytes: '1.5' is not a whole number of bytes"},
      {with("[[between_nodes.longer]]\nfrom_bytes = 0\nlatency_us = 1\nbandwidth_gb_per_s = 1"),
       "my.toml:11: between_nodes.longer.from_bytes: it must be larger than in the table before"},
      {with("[[algorithm]]\nexpression = \"ring\""), "my.toml:10: algorithm.latency_us: it is missing"},
      {with("[[algorithm]]\nexpression = ring\nlatency_us = 1\nbandwidth_gb_per_s = 1"),
       "my.toml:11: algorithm.expression: 'ring' is not a text in quotes"},
      {with("[[algorithm]]\nexpression = \"ring\"\nlevel = \"rack\"\nlatency_us = 1\nbandwidth_gb_per_s = 1"),
       "my.toml:12: algorithm.level: 'rack' is neither between_nodes nor within_node"},
      {with("[core]"), "my.toml:10: [core] occurs twice"},
      {with("[core"), "my.toml:10: a table begins with [name] or [[name]]"},
      {with("[]"), "my.toml:10: unknown table ''"},
      {with("[between]"), "my.toml:10: unknown table 'between'"},
      {with("[between_nodes.longer]"),
       "my.toml:10: a table of this name begins with [[between_nodes.longer]]"},
      {with("[[board]]"), "my.toml:10: a table of this name begins with [board]"},
      {with("what"), "my.toml:10: expected a [table] or KEY = VALUE"},
      {with("= 3"), "my.toml:10: a key is missing before ="},
      {"source =", "my.toml:1: source has no value"},
      {"source = \"open", "my.toml:1: source: a quote is not closed"},
      {"source = \"\"\"open\nand on", "my.toml:1: \"\"\" is not closed"},
      {"within_node = {latency_us = 1}",
       "my.toml:1: within_node: unknown key; known are name, source, eager_limit_bytes, envelope_bytes, "
       "not_measured"},
      {"[board]\nline_ns = [1,\n2]", "my.toml:2: line_ns: neither a number nor a text in quotes"},
      {"[board]\nline = 1",
       "my.toml:2: line: unknown key; known are line_ns, far_line_ns, line_gap_ns, put_line_ns, "
       "ranks_per_cache"},
  };
  for (const auto& [text, line] : cases) EXPECT_EQ(error_of(text), line) << text;
}

TEST(MachineFile, CommentsDoNotCountWhenRanksCompareMachines) {
  const std::string text(small_machine);
  const std::uint64_t hash = parse_machine("a", text).hash();
  EXPECT_EQ(parse_machine("b", "# why\n" + text + "\n# end").hash(), hash);
  for (const char* key : {"handshake_us", "send_gap_us", "receive_gap_us", "send_overhead_us"})
    EXPECT_NE(parse_machine("a", with(std::string(key) + " = 1")).hash(), hash) << key;
  EXPECT_NE(parse_machine("a", with("[[algorithm]]\nexpression = \"ring\"\nlatency_us = 1\n"
                                    "bandwidth_gb_per_s = 1"))
                .hash(),
            hash);
}

const Expression& automatic() { return *interned_expression(Collective::allreduce, "grid( auto )"); }

TEST(AutomaticGrid, HasOneSpelling) {
  EXPECT_EQ(automatic().canonical_text(), "grid(auto)");
  EXPECT_TRUE(has_automatic_grid(*interned_expression(Collective::allreduce, "pipeline(2, grid(auto))")));
  EXPECT_FALSE(has_automatic_grid(*interned_expression(Collective::allreduce, "grid(2x2, ring)")));
}

TEST(AutomaticGrid, IsRefusedWhereItCannotChoose) {
  const std::pair<std::string, std::string> cases[] = {
      {"grid(auto, ring)", "column 10: grid(auto) takes no algorithms, because it chooses them, too"},
      {"grid(2x2, grid(auto))", "column 11: grid(auto) cannot be a part of a grid that has a shape"},
      {"grid(auto", "column 10: expected ')' in grid(D1xD2[x...], ALGORITHM[, ...])"},
      {"grid(automatic)", "column 10: expected ')', found 'm' in grid(D1xD2[x...], ALGORITHM[, ...])"},
  };
  for (const auto& [text, line] : cases) {
    try {
      static_cast<void>(parse_expression(Collective::allreduce, text));
      ADD_FAILURE() << text;
    } catch (const ExpressionError& error) {
      EXPECT_EQ(error.what(), line);
    }
  }
}

TEST(AutomaticGrid, CannotRunWithoutAPlan) {
  EXPECT_EQ(automatic().why_unsuitable({.ranks = 8, .nodes = 8}), "has no shape here");
}

Plan plan_of(const Expression& expression, const Placement& placement, const Machine& machine) {
  const UserChoice fixed{&expression, "OFFBEAT_ALLREDUCE"};
  return make_plan(Collective::allreduce, {.placement = placement, .fixed = &fixed, .machine = &machine});
}

TEST(AutomaticGrid, IsInAPlanWhatCostsLeastForEachLength) {
  const Machine machine = parse_machine("my.toml", small_machine);
  const Placement placement{.ranks = 100, .nodes = 100};
  const Plan plan = plan_of(automatic(), placement, machine);
  ASSERT_GT(plan.rows.size(), 2U);
  EXPECT_EQ(plan.rows.back().bytes.most, max_length);
  bool has_grid = false;
  for (std::size_t k = 0; k < plan.rows.size(); ++k) {
    const PlanRow& row = plan.rows[k];
    EXPECT_FALSE(has_automatic_grid(*row.expression));
    EXPECT_EQ(row.form, RowForm::task);
    EXPECT_EQ(row.needs, Means::messages);
    EXPECT_EQ(row.reason, "OFFBEAT_ALLREDUCE; grid(auto) on mine");
    EXPECT_EQ(row.expression->canonical_text(),
              choose_grid(machine, placement, typical_length(row.bytes.least)).expression);
    EXPECT_EQ(row.bytes.least, k > 0 ? plan.rows[k - 1].bytes.most + 1 : 0);
    has_grid = has_grid || row.expression->canonical_text().starts_with("grid(");
  }
  EXPECT_TRUE(has_grid);
}

// Without this, lengths at which two grids cost nearly the same would have many rows.
TEST(AutomaticGrid, KeepsAGridWhileItIsGoodEnough) {
  for (const int ranks : {100, 720, 1000, 1021}) {
    const Placement placement{.ranks = ranks, .nodes = ranks};
    const Plan plan = plan_of(automatic(), placement, built_in_machine());
    EXPECT_LT(plan.rows.size(), 20U);
    for (const PlanRow& row : plan.rows) {
      for (const std::size_t bytes :
           {row.bytes.least, (row.bytes.least + std::min(row.bytes.most, row.bytes.least * 2)) / 2}) {
        const double cost = grid_seconds(*row.expression, built_in_machine(), placement, bytes);
        EXPECT_LE(cost, 1.15 * choose_grid(built_in_machine(), placement, bytes).seconds)
            << ranks << " ranks, " << bytes << " bytes: " << row.expression->canonical_text();
      }
    }
  }
}

TEST(AutomaticGrid, StopsWhereItsRuleDoes) {
  const ParsedRules parsed = parse_rules("my.rules",
                                         "allreduce * * * 4KiB..1MiB grid(auto)  # why\n"
                                         "allreduce * * * * ring\n");
  ASSERT_TRUE(parsed.errors.empty());
  const Machine machine = parse_machine("my.toml", small_machine);
  const Placement placement{.ranks = 60, .nodes = 60};
  const Plan plan =
      make_plan(Collective::allreduce,
                {.placement = placement, .rules = {&parsed.rules, nullptr}, .machine = &machine});
  EXPECT_EQ(plan.row_for(4095).expression->canonical_text(), "ring");
  EXPECT_EQ(plan.row_for((1 << 20) + 1).expression->canonical_text(), "ring");
  for (const std::size_t bytes : {std::size_t{4096}, std::size_t{1} << 20}) {
    EXPECT_EQ(plan.row_for(bytes).reason, "my.rules:1: why; grid(auto) on mine");
    EXPECT_EQ(plan.row_for(bytes).origin, "my.rules:1");
  }
}

// The part of a hierarchy runs among the leaders of the nodes, and that of a pipeline on a segment.
TEST(AutomaticGrid, AsAPartHasTheRanksAndBytesOfThePart) {
  const Machine machine = parse_machine("my.toml", small_machine);
  const auto resolved = [&](const char* text, const Placement& placement, std::size_t bytes) {
    return replace_automatic_grids(*interned_expression(Collective::allreduce, text), machine, placement,
                                   bytes)
        .canonical_text();
  };
  const Placement nodes{.ranks = 64, .nodes = 64};
  const Placement many{.ranks = 64 * 4, .nodes = 64, .board = true};
  const std::size_t bytes = 200'000;
  EXPECT_EQ(resolved("hierarchy(arrival_tree, grid(auto))", many, bytes),
            "hierarchy(arrival_tree, " + choose_grid(machine, nodes, bytes).expression + ")");
  EXPECT_EQ(resolved("lanes(arrival_tree, grid(auto))", many, bytes),
            "lanes(arrival_tree, " + choose_grid(machine, nodes, bytes / 4).expression + ")");
  EXPECT_EQ(resolved("pipeline(4, grid(auto))", nodes, bytes),
            "pipeline(4, " + choose_grid(machine, nodes, bytes / 4).expression + ")");
  EXPECT_EQ(resolved("pipeline(8KiB, grid(auto))", nodes, bytes),
            "pipeline(8KiB, " + choose_grid(machine, nodes, 8192).expression + ")");
}

TEST(AutomaticGrid, KnowsNoRowsOfNodesThatDifferInSize) {
  const Machine& machine = built_in_machine();
  const auto seconds = [&](const Placement& placement) {
    return choose_grid(machine, placement, std::size_t{1} << 20).seconds;
  };
  const double equal = seconds({.ranks = 64, .nodes = 8});
  const double unequal = seconds({.ranks = 64, .nodes = 8, .equal_nodes = false});
  EXPECT_NE(unequal, equal);
  EXPECT_EQ(unequal, seconds({.ranks = 64, .nodes = 8, .in_rank_order = false}));
}

TEST(AutomaticGrid, RunsOnAnyNumberOfRanks) {
  const Machine machine = parse_machine("my.toml", small_machine);
  for (int ranks = 2; ranks < 200; ++ranks) {
    for (const int per_node : {1, 4, ranks}) {
      if (ranks % per_node != 0) continue;
      const Placement placement{.ranks = ranks, .nodes = ranks / per_node};
      for (const std::size_t bytes : {0, 8, 100'000, 10'000'000}) {
        const ChosenGrid grid = choose_grid(machine, placement, bytes);
        EXPECT_EQ(parse_expression(Collective::allreduce, grid.expression).why_unsuitable(placement), "")
            << ranks << ": " << grid.expression;
      }
    }
  }
}

// A message has the latency and rate of its length. Above the eager limit it waits for a handshake, each way.
TEST(AutomaticGrid, APartHasTheCostsOfMessages) {
  const Machine machine = parse_machine("", detailed_machine);
  const std::vector<GridPart> parts = grid_parts(machine);
  const auto part = [&](std::string_view expression) {
    return std::ranges::find(parts, expression, &GridPart::expression)->candidate;
  };
  const suara::Messages between = part("rabenseifner").between;
  for (const auto& [bytes, a, b] : std::vector<std::array<double, 3>>{{0, 3e-6, 1e-9},
                                                                      {8192, 3e-6, 1e-9},
                                                                      {8192.5, 5e-6, 5e-10},
                                                                      {65536, 5e-6, 5e-10},
                                                                      {65536.5, 11e-6, 5e-10}}) {
    EXPECT_DOUBLE_EQ(between.of(bytes).a, a) << bytes;
    EXPECT_DOUBLE_EQ(between.of(bytes).b, b) << bytes;
  }
  EXPECT_DOUBLE_EQ(between.o, 5.25e-6);
  EXPECT_DOUBLE_EQ(between.v, 1e-6);
  EXPECT_EQ(between.eager_bytes, 65536);
  const suara::Messages within = part("ring").within;
  EXPECT_EQ(within.eager_bytes, 4096);
  EXPECT_EQ(within.v, 0);
  EXPECT_DOUBLE_EQ(within.of(1 << 20).a, 5e-7);
  const suara::Messages fitted = part("ring").between;
  EXPECT_DOUBLE_EQ(fitted.of(1 << 20).a, 7e-6) << "what was fitted to the algorithm has everything in it";
  EXPECT_EQ(fitted.o, 0);
  EXPECT_EQ(fitted.v, 0);
}

// The paper's parameters are those of each algorithm.
TEST(AutomaticGrid, AnAlgorithmHasTheParametersOfTheFile) {
  const std::string fitted =
      with("[[algorithm]]\nexpression = \"ring\"\nlatency_us = 0.001\nbandwidth_gb_per_s = 1000");
  const Placement placement{.ranks = 64, .nodes = 64};
  const ChosenGrid plain = choose_grid(parse_machine("a", small_machine), placement, 1 << 20);
  const ChosenGrid grid = choose_grid(parse_machine("a", fitted), placement, 1 << 20);
  EXPECT_EQ(plain.expression.find("ring"), std::string::npos) << plain.expression;
  EXPECT_EQ(grid.expression, "ring");
  EXPECT_LT(grid.seconds, plain.seconds);
}

TEST(AutomaticGrid, TheHostsAlgorithmsTakePartIfTheirParametersAreKnown) {
  const Machine machine = parse_machine(
      "a", with("[[algorithm]]\nexpression = \"native(ring)\"\nmpi = \"mpich\"\nlatency_us = 0.001\n"
                "bandwidth_gb_per_s = 1000"));
  const Placement placement{.ranks = 64, .nodes = 64};
  EXPECT_EQ(choose_grid(machine, placement, 1 << 20, "mpich").expression, "native(ring)");
  EXPECT_NE(choose_grid(machine, placement, 1 << 20, "openmpi").expression, "native(ring)");
  EXPECT_NE(choose_grid(machine, placement, 1 << 20).expression, "native(ring)");
}

TEST(AutomaticGrid, AGridIsOffbeatsOrTheHosts) {
  const Machine machine = parse_machine(
      "a", with("[[algorithm]]\nexpression = \"native(ring)\"\nmpi = \"mpich\"\nlatency_us = 1\n"
                "bandwidth_gb_per_s = 1000"));
  for (const int ranks : {16, 61, 64}) {
    const Placement placement{.ranks = ranks, .nodes = ranks};
    const std::string chosen = choose_grid(machine, placement, 1 << 10, "mpich").expression;
    const Expression expression = parse_expression(Collective::allreduce, chosen);
    EXPECT_TRUE(expression.runs_on_host()) << chosen;
    EXPECT_EQ(expression.why_unsuitable(placement), "") << chosen;
    EXPECT_EQ(expression.is_host_grid(), ranks != 61) << chosen;
  }
}

TEST(AutomaticGrid, RanksCompareTheirMachines) {
  Selection none;
  Selection mine;
  Selection other;
  mine.set_initial_choice(parse_machine("a", small_machine));
  other.set_initial_choice(parse_machine("a", with("handshake_us = 1")));
  EXPECT_EQ(none.hash_of_user_rules(), 0U);
  EXPECT_NE(mine.hash_of_user_rules(), 0U);
  EXPECT_NE(mine.hash_of_user_rules(), other.hash_of_user_rules());
}

}  // namespace
}  // namespace offbeat
