// SPDX-License-Identifier: BSD-3-Clause
// The cost formulas in the headers of bcast, reduce, gather and scatter, for several roots, and what a reduce
// of two ranks on the board reads.
// collectives_test.cpp tests what they compute.
#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "collectives/repertoire.hpp"
#include "node/board_shape.hpp"
#include "simulator/simulator.hpp"

namespace offbeat {
namespace {

class Cost : public testing::Test {
 protected:
  static constexpr double a = 2e-6;
  static constexpr double b = 1e-9;
  static constexpr double c = 3e-10;
  static constexpr std::size_t bytes = 1 << 16;  // of the vector, or of a block
  static constexpr double n = bytes;

  static double time_of(Collective collective, const std::string& text, int ranks, int root = 0) {
    const Expression expression = parse_expression(collective, text);
    const Reduction sum(ElementType::uint8, ReduceOp::sum);
    const SimulatedMachine machine{
        .inter_alpha = a, .inter_beta = b, .gamma = c, .eager_bytes = std::size_t{1} << 40};
    Simulator simulator(ranks, machine, {.phantom = true});
    const std::size_t all = bytes * static_cast<std::size_t>(ranks);
    const auto call_of = [&](int rank) -> Call {
      Call call{collective, {nullptr, bytes, 1}, {nullptr, bytes, 1}, &sum, root};
      if (collective == Collective::bcast && rank != root) call.input = {};
      if (collective == Collective::scatter) call.input.count = rank == root ? all : 0;
      if (collective == Collective::gather) call.output.count = rank == root ? all : 0;
      return call;
    };
    return simulator
        .run([&](int rank, Endpoint net) { return carry_out(net, call_of(rank), expression); }, {},
             expression.lanes())
        .last_delay();
  }

  // Exactly, where p is a power of two; other numbers of ranks take no longer.
  template <class Formula>
  static void expect(Collective collective, const std::string& text, Formula formula) {
    for (const int p : {2, 3, 5, 8, 13, 16, 60, 64}) {
      for (const int root : {0, 1, p - 1}) {
        const double steps = std::ceil(std::log2(p));
        const double time = time_of(collective, text, p, root);
        const double limit = formula(p, steps);
        EXPECT_LE(time, limit + 1e-12) << text << " on " << p << ", root " << root;
        if ((p & (p - 1)) == 0) {
          EXPECT_GE(time, limit - 1e-12) << text << " on " << p << ", root " << root;
        }
      }
    }
  }
};

// The simulator lets the latencies of messages that do not wait for one another overlap.
TEST_F(Cost, Bcast) {
  expect(Collective::bcast, "linear", [](int p, double) { return a + (p - 1) * n * b; });
  expect(Collective::bcast, "binomial", [](int, double steps) { return steps * (a + n * b); });
  expect(Collective::bcast, "chain", [](int p, double) { return (p - 1) * (a + n * b); });
  expect(Collective::bcast, "pipeline(16, chain)",
         [](int p, double) { return (p - 1) * a + (p + 14) * n / 16 * b; });
  expect(Collective::bcast, "scatter_allgather",
         [](int p, double steps) { return (steps + p - 1) * a + 2 * n * (p - 1) / p * b; });
}

TEST_F(Cost, Reduce) {
  expect(Collective::reduce, "binomial", [](int, double steps) { return steps * (a + n * b + n * c); });
  expect(Collective::reduce, "chain", [](int p, double) { return (p - 1) * (a + n * b + n * c); });
  expect(Collective::reduce, "rabenseifner", [](int p, double) {
    const int core = static_cast<int>(std::bit_floor(static_cast<unsigned>(p)));
    const double halving =
        2 * std::log2(core) * a + 2 * n * (core - 1) / core * b + n * (core - 1) / core * c;
    // Folding; half a vector of who has nobody to wait for may come first.
    return core == p ? halving : halving + a + 1.5 * n * b + n * c;
  });
}

TEST_F(Cost, GatherAndScatter) {
  for (const Collective collective : {Collective::gather, Collective::scatter}) {
    expect(collective, "linear", [](int p, double) { return a + (p - 1) * n * b; });
    expect(collective, "binomial", [](int p, double steps) { return steps * a + (p - 1) * n * b; });
  }
}

// With a long vector on the board, each rank reads the lines of what it combines or copies, and few others.
TEST(ReduceOnTheBoard, TheRootOfTwoCombinesUnlessTheOtherIsLate) {
  constexpr std::size_t bytes = std::size_t{64} << 10;
  constexpr std::uint64_t all = bytes / BoardShape::line;
  constexpr std::uint64_t few = all / 8;  // words
  const Expression expression = parse_expression(Collective::reduce, "arrival_tree");
  const Reduction sum(ElementType::uint8, ReduceOp::sum);
  for (const int root : {0, 1}) {
    SCOPED_TRACE("root " + std::to_string(root));
    const auto lines_read = [&](double root_comes, double other_comes) {
      const Call call{Collective::reduce, {nullptr, bytes, 1}, {nullptr, bytes, 1}, &sum, root};
      const SimulatedMachine machine{
          .gamma = 1e-10, .copy = 1e-10, .line = 40e-9, .levels = {{.line = 40e-9}}, .ranks_per_node = 2};
      Simulator simulator(2, machine, {.phantom = true, .board_window_bytes = std::size_t{1} << 20});
      std::vector<double> arrivals(2, other_comes);
      arrivals[static_cast<std::size_t>(root)] = root_comes;
      const auto make = [&](int, Endpoint net) { return carry_out(net, call, expression); };
      std::vector<std::uint64_t> lines = simulator.run(make, arrivals).lines_read;
      if (root != 0) std::swap(lines[0], lines[1]);
      return lines;
    };
    const auto together = lines_read(0, 0);
    EXPECT_GE(together[0], all - all / 4) << "the root may have put a chunk before it saw the other";
    EXPECT_LE(together[1], all / 4 + few);
    const auto late_root = lines_read(1, 0);
    EXPECT_GE(late_root[0], all);
    EXPECT_LE(late_root[1], few);
    const auto late_other = lines_read(0, 1);
    EXPECT_GE(late_other[1], all) << "it combines, in the root's window";
  }
}

}  // namespace
}  // namespace offbeat
