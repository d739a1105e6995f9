// SPDX-License-Identifier: BSD-3-Clause
// What only scan and exscan promise: operands in rank order, the same bits of a prefix whatever the number of
// ranks is, and that nobody waits for a higher rank. Also the cost formulas in the headers of their
// algorithms. collectives_test.cpp, direct_test.cpp, hierarchy_test.cpp and board_test.cpp have them with all
// others.
#include <gtest/gtest.h>

#include <cmath>
#include <string>
#include <tuple>
#include <vector>

#include "checked_calls.hpp"
#include "hockney.hpp"

namespace offbeat {
namespace {

constexpr Collective prefixes[] = {Collective::scan, Collective::exscan};

CheckedCalls run(const Case& what, const std::string& text, int ranks, std::size_t window_bytes = 0) {
  CheckedCalls checked(ranks, what);
  SimulatedMachine machine = awkward_machine();
  machine.ranks_per_node = ranks;
  const Expression expression = parse_expression(what.collective, text);
  Simulator simulator(ranks, machine, {.board_window_bytes = window_bytes});
  simulator.run([&](int rank, Endpoint net) { return carry_out(net, checked.args(rank), expression); }, {},
                expression.lanes());
  return checked;
}

// On the board a vector that takes the slots, and one that takes the chain.
class SameBits : public testing::TestWithParam<std::tuple<Collective, std::string, std::size_t>> {};

TEST_P(SameBits, WhateverTheNumberOfRanks) {
  const auto& [collective, text, count] = GetParam();
  const std::size_t window = text == "arrival_prefix" ? std::size_t{1} << 20 : 0;
  const Case what{collective, count, 0, Operation::weave};
  constexpr int most = 16;
  const CheckedCalls all = run(what, text, most, window);
  for (const int ranks : {2, 3, 5, 8, 13}) {
    const CheckedCalls some = run(what, text, ranks, window);
    for (int rank = 0; rank < ranks; ++rank)
      EXPECT_EQ(some.result_of(rank), all.result_of(rank)) << "rank " << rank << " of " << ranks;
  }
}

std::string name_of_bits(const testing::TestParamInfo<SameBits::ParamType>& info) {
  const auto& [collective, text, count] = info.param;
  return std::string(name_of(collective)) + "_" + text + "_" + std::to_string(count);
}

INSTANTIATE_TEST_SUITE_P(Prefix, SameBits,
                         testing::Values(std::tuple{Collective::scan, "chain", 50},
                                         std::tuple{Collective::exscan, "chain", 50},
                                         std::tuple{Collective::scan, "recursive_doubling", 50},
                                         std::tuple{Collective::exscan, "recursive_doubling", 50},
                                         std::tuple{Collective::scan, "arrival_prefix", 16},
                                         std::tuple{Collective::exscan, "arrival_prefix", 16},
                                         std::tuple{Collective::scan, "arrival_prefix", 20'000},
                                         std::tuple{Collective::exscan, "arrival_prefix", 20'000}),
                         name_of_bits);

// Slots and chains combine from left to right.
TEST(ArrivalPrefix, CombinesFromLeftToRight) {
  for (const Collective collective : prefixes) {
    for (const std::size_t count : {16, 20'000}) {
      const Case what{collective, count, 0, Operation::weave};
      const CheckedCalls on_board = run(what, "arrival_prefix", 7, std::size_t{1} << 20);
      const CheckedCalls by_messages = run(what, "chain", 7);
      for (int rank = 0; rank < 7; ++rank)
        EXPECT_EQ(on_board.result_of(rank), by_messages.result_of(rank)) << what.text() << ", rank " << rank;
    }
  }
}

// Through slots, in doubling steps through slots or windows, and in a chain.
class NobodyWaits : public testing::TestWithParam<std::tuple<int, std::size_t>> {};

TEST_P(NobodyWaits, ForAHigherRank) {
  const auto& [ranks, bytes] = GetParam();
  constexpr double late = 1;
  for (const Collective collective : prefixes) {
    const Expression expression = parse_expression(collective, "arrival_prefix");
    const Reduction sum(ElementType::uint8, ReduceOp::sum);
    for (const int last : {0, 1, ranks / 2, ranks - 1}) {
      Simulator simulator(ranks, {.gamma = 1e-10, .copy = 1e-10, .line = 40e-9, .ranks_per_node = ranks},
                          {.phantom = true, .board_window_bytes = std::size_t{1} << 20});
      std::vector<double> arrivals(static_cast<std::size_t>(ranks));
      arrivals[static_cast<std::size_t>(last)] = late;
      const std::size_t length = bytes;
      const auto make = [&](int, Endpoint net) {
        const Call call{collective, {nullptr, length, 1}, {nullptr, length, 1}, &sum};
        return carry_out(net, call, expression);
      };
      const std::vector<double> exits = simulator.run(make, arrivals).exits;
      for (int rank = 0; rank < ranks; ++rank) {
        const double exit = exits[static_cast<std::size_t>(rank)];
        if (rank < last) {
          EXPECT_LT(exit, late / 2) << "rank " << rank << " of " << ranks << ", rank " << last << " is late";
        } else {
          EXPECT_GE(exit, late);
          EXPECT_LT(exit, late + 1e-3);
        }
      }
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Board, NobodyWaits,
                         testing::Combine(testing::Values(2, 7, 40),
                                          testing::Values(std::size_t{8}, std::size_t{4000},
                                                          std::size_t{9000}, std::size_t{300'000})),
                         [](const auto& info) {
                           return std::to_string(std::get<0>(info.param)) + "_ranks_" +
                                  std::to_string(std::get<1>(info.param)) + "_bytes";
                         });

class PrefixCost : public Hockney {
 protected:
  static constexpr std::size_t bytes = 1 << 16;
  static constexpr double n = bytes;

  // Exactly, where p is a power of two; other numbers of ranks take no longer. `early`: a message of a rank
  // that is ahead may take the port of one that waits for another one.
  template <class Formula>
  static void expect(Collective collective, const std::string& text, Formula formula, double early = 0) {
    for (const int p : {2, 3, 5, 8, 13, 16, 64}) {
      const double time = time_of(collective, text, p, bytes, bytes);
      const double limit = formula(p, std::ceil(std::log2(p)));
      EXPECT_LE(time, limit + early + 1e-12) << name_of(collective) << " by " << text << " on " << p;
      if ((p & (p - 1)) != 0) continue;
      EXPECT_GE(time, limit - 1e-12) << name_of(collective) << " by " << text << " on " << p;
    }
  }
};

TEST_F(PrefixCost, Chain) {
  expect(Collective::scan, "chain", [](int p, double) { return (p - 1) * (a + n * b + n * c); });
  expect(Collective::exscan, "chain", [](int p, double) { return (p - 1) * (a + n * b) + (p - 2) * n * c; });
}

TEST_F(PrefixCost, RecursiveDoubling) {
  expect(Collective::scan, "recursive_doubling",
         [](int, double steps) { return steps * (a + n * b + n * c); });
  const auto exclusive = [](int, double steps) {
    return steps * (a + n * b) + std::max(2 * steps - 2, 0.) * n * c;
  };
  expect(Collective::exscan, "recursive_doubling", exclusive, n * b);
}

}  // namespace
}  // namespace offbeat
