// SPDX-License-Identifier: BSD-3-Clause
// The cost formulas of algorithms against the simulator. docs/explanation/models.md has the errors.
#include "collectives/cost.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <cctype>
#include <cstdio>
#include <cstdlib>
#include <set>
#include <string>
#include <vector>

#include "base/error.hpp"
#include "collectives/repertoire.hpp"
#include "simulator/phantom_calls.hpp"
#include "simulator/simulator.hpp"

namespace offbeat {
namespace {

constexpr double rounding = 1e-9;

struct Costs {
  double a;
  double b;
  double c;
};
// Messages are slower than combining; combining is slower; little but latency.
constexpr Costs costs[] = {{2e-6, 1e-9, 3e-10}, {2e-6, 1e-9, 3e-9}, {1e-5, 1e-10, 2e-10}};

struct Shape {
  int nodes;
  int ranks_per_node;
  [[nodiscard]] int ranks() const { return nodes * ranks_per_node; }
};

double simulated(Collective collective, const Expression& expression, Shape shape, std::size_t bytes,
                 Costs cost, std::size_t eager_bytes) {
  const SimulatedMachine machine{.intra_alpha = cost.a / 4,
                                 .intra_beta = cost.b / 8,
                                 .inter_alpha = cost.a,
                                 .inter_beta = cost.b,
                                 .gamma = cost.c,
                                 .eager_bytes = eager_bytes,
                                 .ranks_per_node = shape.ranks_per_node};
  const PhantomCalls calls(collective, bytes, shape.ranks());
  Simulator simulator(shape.ranks(), machine, {.phantom = true});
  return simulator
      .run([&](int rank, Endpoint net) { return carry_out(net, calls.call_of_rank(rank), expression); }, {},
           expression.lanes())
      .last_exit;
}

bool has_blocks(Collective collective) {
  const auto has_vector = {Collective::allreduce,      Collective::bcast, Collective::reduce,
                           Collective::reduce_scatter, Collective::scan,  Collective::exscan};
  return std::ranges::find(has_vector, collective) == has_vector.end();
}

// Which cases a bound is for.
enum class Ranks { powers_of_two, others };
enum class Sends { eager, waiting };

struct Worst {
  double low = 0;   // the model says too little by this part of the simulated time
  double high = 0;  // too much
  std::string text;
};

// Compares the model with the simulator over ranks, lengths and costs. Blocks have at least four bytes.
Worst compare(Collective collective, const std::string& text, Ranks kind, Sends sends,
              const std::vector<Shape>& shapes) {
  const Expression expression = parse_expression(collective, text);
  const auto model = CostModel::for_expression(collective, expression);
  if (!model) throw std::runtime_error(text + " has no formula");
  const std::size_t eager_bytes = sends == Sends::eager ? std::size_t{1} << 40 : 0;
  Worst worst;
  for (const Shape shape : shapes) {
    const int p = shape.ranks();
    if (std::has_single_bit(static_cast<unsigned>(p)) != (kind == Ranks::powers_of_two)) continue;
    if (!expression.why_unsuitable({.ranks = p, .nodes = shape.nodes}).empty()) continue;
    for (const std::size_t elements : {1, 16, 1024, 65536}) {
      const std::size_t bytes = 4 * elements * (has_blocks(collective) ? 1 : static_cast<std::size_t>(p));
      for (const Costs& cost : costs) {
        const double time = simulated(collective, expression, shape, bytes, cost, eager_bytes);
        const double predicted = (*model)({.ranks = p,
                                           .nodes = shape.nodes,
                                           .bytes = static_cast<double>(bytes),
                                           .a = cost.a,
                                           .b = cost.b,
                                           .c = cost.c,
                                           .a_within = cost.a / 4,
                                           .b_within = cost.b / 8,
                                           .eager_bytes = static_cast<double>(eager_bytes)});
        const double error = predicted / time - 1;
        if (error < -worst.low || error > worst.high)
          worst.text = std::to_string(shape.nodes) + " x " + std::to_string(shape.ranks_per_node) +
                       " ranks, " + std::to_string(bytes) + " bytes, b " + std::to_string(cost.b * 1e9) +
                       " ns";
        worst.low = std::max(worst.low, -error);
        worst.high = std::max(worst.high, error);
      }
    }
  }
  return worst;
}

std::vector<Shape> one_rank_a_node() {
  std::vector<Shape> shapes;
  for (const int p : {2, 3, 4, 5, 6, 7, 8, 11, 12, 15, 16, 17, 23, 32, 33}) shapes.push_back({p, 1});
  return shapes;
}

// The largest errors, in percent of the simulated time: {too low, too high}.
struct Bound {
  double low = 0;
  double high = 0;
};
struct Case {
  Collective collective;
  std::string text;
  Bound eager_powers{};
  Bound waiting_powers{};
  Bound eager_others{};
  Bound waiting_others{};
};

void PrintTo(const Case& each, std::ostream* out) { *out << name_of(each.collective) << ' ' << each.text; }

void check(const Case& each, Ranks kind, Sends sends, Bound bound, const std::vector<Shape>& shapes) {
  const Worst worst = compare(each.collective, each.text, kind, sends, shapes);
  const char* what = kind == Ranks::powers_of_two ? "powers of two" : "other numbers";
  const char* how = sends == Sends::eager ? "eager" : "waiting";
  if (std::getenv("OFFBEAT_SHOW_ERRORS") != nullptr) {
    std::printf("%s %s, %s, %s: -%.2f%% +%.2f%% (%s)\n", std::string(name_of(each.collective)).c_str(),
                each.text.c_str(), what, how, 100 * worst.low, 100 * worst.high, worst.text.c_str());
  }
  EXPECT_LE(100 * worst.low, bound.low + rounding) << what << ", " << how << ": too low, " << worst.text;
  EXPECT_LE(100 * worst.high, bound.high + rounding) << what << ", " << how << ": too high, " << worst.text;
}

class CostText : public testing::TestWithParam<Case> {};

TEST_P(CostText, AgreesWithTheSimulator) {
  const Case& each = GetParam();
  check(each, Ranks::powers_of_two, Sends::eager, each.eager_powers, one_rank_a_node());
  check(each, Ranks::powers_of_two, Sends::waiting, each.waiting_powers, one_rank_a_node());
  check(each, Ranks::others, Sends::eager, each.eager_others, one_rank_a_node());
  check(each, Ranks::others, Sends::waiting, each.waiting_others, one_rank_a_node());
}

using enum Collective;
const Case cases[] = {
    {allreduce, "recursive_doubling", {}, {}, {0, 8}},
    {allreduce, "rabenseifner", {}, {}, {1, 1}, {1, 0}},
    {allreduce, "bine", {}, {}, {1, 1}, {1, 0}},
    {allreduce, "ring"},
    {allreduce, "ring_segmented(512B)"},
    {allreduce, "ring_segmented(64KiB)"},
    {allreduce, "binomial", {}, {}, {8, 0}},
    {allreduce, "linear"},
    {allreduce, "recursive_multiplying(3)", {}, {}, {0, 8}, {28, 0}},
    {allreduce, "recursive_multiplying(4)", {}, {34, 0}, {0, 8}, {32, 0}},
    {allreduce, "recursive_multiplying(7)", {}, {34, 0}, {0, 8}, {40, 0}},
    {allreduce, "arrival_owners", {10, 2}, {16, 9}, {11, 1}, {22, 10}},
    {allreduce, "nap", {}, {}, {0, 8}},
    {allreduce, "smp", {}, {}, {0, 8}},
    {allreduce, "grid(2x4, ring)", {}, {}, {4, 12}, {1, 0}},
    {allreduce, "grid(4x3, recursive_doubling, rabenseifner)", {2, 34}, {}, {6, 34}, {1, 0}},
    {allreduce, "pipeline(4, recursive_doubling)", {1, 0}, {1, 0}, {19, 20}, {9, 32}},
    {allreduce, "pipeline(4, ring)", {2, 21}, {2, 21}, {1, 21}, {1, 21}},
    {allreduce, "pipeline(4, rabenseifner)", {7, 19}, {7, 19}, {26, 100}, {27, 18}},
    {allreduce, "pipeline(4, grid(2x4, ring))", {30, 5}, {29, 5}, {34, 12}, {30, 5}},
    {allreduce, "pipeline(64KiB, ring)", {8, 29}, {8, 29}, {32, 29}, {32, 29}},
    {bcast, "linear"},
    {bcast, "binomial"},
    {bcast, "knomial(3)", {0, 12}, {}, {0, 13}},
    {bcast, "knomial(4)", {}, {}, {0, 20}},
    {bcast, "chain"},
    {bcast, "scatter_allgather"},
    {bcast, "pipeline(4, chain)"},
    {bcast, "pipeline(16, chain)", {}, {}, {1, 0}, {1, 0}},
    {bcast, "pipeline(4, binomial)", {0, 30}, {0, 52}, {0, 26}, {0, 55}},
    {bcast, "pipeline(4, scatter_allgather)", {2, 0}, {2, 0}, {2, 0}, {2, 0}},
    {reduce, "linear"},
    {reduce, "binomial", {}, {}, {14, 0}},
    {reduce, "knomial(3)", {0, 7}, {}, {0, 16}},
    {reduce, "knomial(4)", {}, {}, {0, 33}},
    {reduce, "chain"},
    {reduce, "rabenseifner", {}, {}, {1, 1}, {1, 0}},
    {reduce, "pipeline(4, chain)", {1, 0}, {1, 0}, {1, 0}, {1, 0}},
    {reduce, "pipeline(4, binomial)", {1, 47}, {1, 47}, {3, 53}, {0, 49}},
    {allgather, "ring"},
    {allgather, "bruck"},
    {allgather, "k_bruck(3)", {}, {25, 0}, {}, {34, 0}},
    {allgather, "k_bruck(4)", {}, {40, 0}, {}, {34, 0}},
    {allgather, "recursive_doubling", {}, {}, {12, 5}, {12, 0}},
    {allgather, "neighbor_exchange"},
    {allgather, "linear", {2, 0}, {47, 0}, {2, 0}, {46, 0}},
    {allgatherv, "ring"},
    {reduce_scatter, "ring"},
    {reduce_scatter, "pairwise"},
    {reduce_scatter, "recursive_halving", {}, {}, {9, 20}, {12, 0}},
    {reduce_scatter, "recursive_splitting(3)", {}, {}, {34, 2}, {28, 0}},
    {reduce_scatter, "recursive_splitting(4)", {}, {34, 0}, {38, 0}, {30, 0}},
    {alltoall, "linear", {2, 0}, {47, 0}, {2, 0}, {46, 0}},
    {alltoall, "pairwise"},
    {alltoall, "bruck"},
    {alltoall, "k_bruck(3)", {}, {25, 0}, {}, {34, 0}},
    {alltoall, "k_bruck(4)", {}, {40, 0}, {}, {34, 0}},
    {gather, "linear"},
    {gather, "binomial", {}, {}, {0, 11}},
    {scatter, "linear"},
    {scatter, "binomial"},
    {scan, "chain"},
    {scan, "recursive_doubling", {7, 0}, {}, {19, 0}},
    {barrier, "dissemination", {1, 0}, {1, 0}, {1, 0}, {1, 0}},
    {barrier, "k_dissemination(4)", {1, 0}, {1, 0}, {1, 0}, {1, 0}},
};

INSTANTIATE_TEST_SUITE_P(All, CostText, testing::ValuesIn(cases), [](const auto& info) {
  std::string name = std::string(name_of(info.param.collective)) + "_" + info.param.text;
  std::ranges::replace_if(
      name, [](char c) { return std::isalnum(static_cast<unsigned char>(c)) == 0; }, '_');
  return name;
});

// Nodes of several ranks, whose messages stay within the node where they can.
TEST(CostText, OfNodesWithSeveralRanks) {
  const std::vector<Shape> powers = {{2, 2},  {4, 2}, {8, 2},  {2, 4}, {4, 4},
                                     {16, 4}, {8, 8}, {64, 8}, {1, 8}};
  const std::vector<Shape> others = {{3, 2}, {5, 4}, {6, 3}, {7, 5}, {12, 6}, {24, 8}, {33, 8}};
  for (const char* text : {"smp", "nap"}) {
    const Case each{allreduce, text};
    const bool naps = std::string(text) == "nap";
    check(each, Ranks::powers_of_two, Sends::eager, {}, powers);
    check(each, Ranks::others, Sends::eager, naps ? Bound{14, 14} : Bound{0, 15}, others);
    check(each, Ranks::others, Sends::waiting, naps ? Bound{13, 0} : Bound{}, others);
  }
}

// A core's overheads are a part of the latency, if a rank waits for each message.
TEST(CostText, HasTheOverheadsOfCores) {
  struct Fan {
    Collective collective;
    const char* text;
    Bound bound;
  };
  const double o = 0.7e-6;
  for (const auto& [collective, text, bound] : {
           Fan{allreduce, "recursive_doubling", {}},
           Fan{allreduce, "ring", {}},
           Fan{allreduce, "rabenseifner", {}},
           Fan{allreduce, "ring_segmented(1KiB)", {1, 3}},
           Fan{bcast, "chain", {}},
           Fan{reduce, "chain", {}},
           Fan{alltoall, "pairwise", {}},
           Fan{allgather, "bruck", {}},
           Fan{bcast, "linear", {}},
           Fan{scatter, "linear", {}},
           Fan{gather, "linear", {}},
           Fan{reduce, "linear", {}},
           Fan{allreduce, "recursive_multiplying(4)", {}},
           Fan{allreduce, "recursive_multiplying(16)", {}},
           Fan{alltoall, "linear", {5, 30}},
       }) {
    const Expression expression = parse_expression(collective, text);
    const auto model = CostModel::for_expression(collective, expression);
    ASSERT_TRUE(model) << text;
    Worst worst;
    for (const int p : {2, 4, 16, 64}) {
      for (const std::size_t elements : {1, 64, 1024}) {
        for (const Costs& cost : costs) {
          const std::size_t bytes = 4 * elements * (has_blocks(collective) ? 1 : static_cast<std::size_t>(p));
          const SimulatedMachine machine{.inter_alpha = cost.a,
                                         .inter_beta = cost.b,
                                         .gamma = cost.c,
                                         .eager_bytes = std::size_t{1} << 40,
                                         .inter_message = {.send_overhead = o, .receive_overhead = o}};
          const PhantomCalls calls(collective, bytes, p);
          Simulator simulator(p, machine, {.phantom = true});
          const double time =
              simulator
                  .run([&](int rank,
                           Endpoint net) { return carry_out(net, calls.call_of_rank(rank), expression); },
                       {}, expression.lanes())
                  .last_exit;
          const double predicted = (*model)({.ranks = p,
                                             .bytes = static_cast<double>(bytes),
                                             .a = cost.a + 2 * o,
                                             .b = cost.b,
                                             .c = cost.c,
                                             .o = o,
                                             .v = 2 * o,
                                             .eager_bytes = 1e12});
          const double error = predicted / time - 1;
          if (error < -worst.low || error > worst.high)
            worst.text = std::to_string(p) + " ranks, " + std::to_string(bytes) + " bytes";
          worst.low = std::max(worst.low, -error);
          worst.high = std::max(worst.high, error);
        }
      }
    }
    if (std::getenv("OFFBEAT_SHOW_ERRORS") != nullptr) {
      std::printf("with overheads, %s %s: -%.2f%% +%.2f%% (%s)\n", std::string(name_of(collective)).c_str(),
                  text, 100 * worst.low, 100 * worst.high, worst.text.c_str());
    }
    EXPECT_LE(100 * worst.low, bound.low + rounding) << text << ": too low, " << worst.text;
    EXPECT_LE(100 * worst.high, bound.high + rounding) << text << ": too high, " << worst.text;
  }
}

// These texts say what is left after the late rank has come.
TEST(CostText, AfterTheLateRank) {
  for (const char* text : {"ring_prereduced(3)", "straggler(3)"}) {
    const Expression expression = parse_expression(allreduce, text);
    const auto model = CostModel::for_expression(allreduce, expression);
    ASSERT_TRUE(model) << text;
    for (const int p : {4, 5, 8, 13, 16, 32}) {
      for (const std::size_t elements : {16, 1024, 65536}) {
        const std::size_t bytes =
            4 * elements * static_cast<std::size_t>(p * (std::bit_floor(static_cast<unsigned>(p)) - 1));
        for (const Costs& cost : costs) {
          const SimulatedMachine machine{
              .inter_alpha = cost.a, .inter_beta = cost.b, .gamma = cost.c, .eager_bytes = 0};
          std::vector<double> arrivals(static_cast<std::size_t>(p));
          arrivals[3] = 1e4;
          const PhantomCalls calls(allreduce, bytes, p);
          Simulator simulator(p, machine, {.phantom = true});
          const double time =
              simulator
                  .run([&](int rank,
                           Endpoint net) { return carry_out(net, calls.call_of_rank(rank), expression); },
                       arrivals, expression.lanes())
                  .last_delay();
          const double predicted = (*model)({.ranks = p,
                                             .bytes = static_cast<double>(bytes),
                                             .a = cost.a,
                                             .b = cost.b,
                                             .c = cost.c,
                                             .eager_bytes = 0});
          EXPECT_NEAR(predicted / time, 1, 0.2) << text << ", " << p << " ranks, " << bytes << " bytes";
        }
      }
    }
  }
}

// The work on the nodes comes in addition.
TEST(CostText, OfAHierarchyIsThatOfItsLeaders) {
  for (const char* text : {"hierarchy(arrival_tree, ring)", "hierarchy(arrival_tree, recursive_doubling)",
                           "lanes(arrival_tree, rabenseifner)"}) {
    const Expression expression = parse_expression(allreduce, text);
    const auto model = CostModel::for_expression(allreduce, expression);
    ASSERT_TRUE(model) << text;
    for (const Shape shape : {Shape{4, 4}, Shape{8, 8}}) {
      for (const std::size_t bytes : {64, 4096, 65536, 1 << 20}) {
        const SimulatedMachine machine{.inter_alpha = 1.5e-6,
                                       .inter_beta = 1.0 / 16e9,
                                       .gamma = 2e-10,
                                       .copy = 1e-10,
                                       .line = 1e-7,
                                       .ranks_per_node = shape.ranks_per_node};
        const PhantomCalls calls(allreduce, bytes, shape.ranks());
        Simulator simulator(shape.ranks(), machine, {.phantom = true, .board_window_bytes = 1 << 20});
        const double time =
            simulator
                .run([&](int rank,
                         Endpoint net) { return carry_out(net, calls.call_of_rank(rank), expression); },
                     {}, expression.lanes())
                .last_exit;
        const double predicted = (*model)({.ranks = shape.ranks(),
                                           .nodes = shape.nodes,
                                           .bytes = static_cast<double>(bytes),
                                           .a = 1.5e-6,
                                           .b = 1.0 / 16e9,
                                           .c = 2e-10});
        if (std::getenv("OFFBEAT_SHOW_ERRORS") != nullptr)
          std::printf("board %s %d x %d, %zu bytes: %+.2f%%\n", text, shape.nodes, shape.ranks_per_node,
                      bytes, 100 * (predicted / time - 1));
        EXPECT_LT(predicted, time);
        if (bytes == 64) {
          EXPECT_GT(predicted, 0.85 * time);
        }
      }
    }
  }
}

// Every algorithm of messages has a formula, but for these.
TEST(CostText, IsAFormula) {
  std::set<std::string> words;
  for (std::size_t k = 0; k < collectives.size(); ++k) {
    const Collective collective = collective_at(k);
    if (!served_collectives.contain(collective)) continue;
    for (const Algorithm* algorithm : repertoire(collective).algorithms) {
      if (algorithm->needs.board == OnBoard::one_node || algorithm->run == nullptr) continue;
      try {
        const Formula formula(algorithm->cost);
      } catch (const UsageError&) {
        words.insert(std::string(name_of(collective)) + " " + std::string(algorithm->name));
      }
    }
  }
  EXPECT_EQ(words, std::set<std::string>{});
}

}  // namespace
}  // namespace offbeat
