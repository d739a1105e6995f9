// SPDX-License-Identifier: BSD-3-Clause
// Every algorithm and a dozen compositions x rank counts x lengths x in place x adversarial timing, in the
// simulator.
//
// Checked: integers are exact; floats, and an operation that tells all orders of operands apart, have the
// same bits on every rank, for every timing, in place or not; the input is untouched; nothing is written
// beside the output; no deadlock, no lost message (the simulator throws).
#include <gtest/gtest.h>

#include <algorithm>
#include <span>
#include <string>
#include <tuple>
#include <vector>

#include "collectives/repertoire.hpp"
#include "hockney.hpp"
#include "simulator/phantom_calls.hpp"
#include "vectors.hpp"

namespace offbeat {
namespace {

const std::vector<std::string> compositions = {
    "ring_segmented(1B)",
    "ring_segmented(64B)",
    "ring_segmented(1MiB)",
    "recursive_multiplying(2)",
    "recursive_multiplying(3)",
    "recursive_multiplying(4)",
    "recursive_multiplying(12)",
    "recursive_multiplying(64)",
    "pipeline(2, recursive_multiplying(4))",
    "ring_prereduced(0)",
    "ring_prereduced(2)",
    "straggler(0)",
    "straggler(2)",
    "pipeline(3, straggler(1))",
    "grid(2x3, straggler(1), ring_prereduced(0))",
    "pipeline(1, ring)",
    "pipeline(4, ring)",
    "pipeline(64, recursive_doubling)",
    "pipeline(4B, linear)",
    "pipeline(100B, rabenseifner)",
    "pipeline(1KiB, ring_segmented(32B))",
    "pipeline(3, pipeline(2, binomial))",
    "grid(2x2, ring)",
    "grid(2x3, ring, rabenseifner)",
    "grid(4x2, recursive_doubling, linear)",
    "grid(2x2x2, ring)",
    "grid(3x1, ring)",
    "grid(2x2, pipeline(2, ring), ring_segmented(8B))",
    "pipeline(2, grid(2x4, rabenseifner, ring))",
    "grid(4x4, grid(2x2, ring), binomial)",
};

// Algorithms without arguments, from the registry: a new one is tested without being named here.
std::vector<std::string> expressions() {
  std::vector<std::string> all;
  for (const Algorithm* algorithm : repertoire(Collective::allreduce).algorithms) {
    const bool runs_here =
        algorithm->run != nullptr && algorithm->needs.board == OnBoard::no;  // board_test runs those
    if (algorithm->parameters.empty() && runs_here) all.emplace_back(algorithm->name);
  }
  all.insert(all.end(), compositions.begin(), compositions.end());
  return all;
}

class EveryAlgorithm : public testing::TestWithParam<std::tuple<std::string, int>> {};

TEST_P(EveryAlgorithm, IsExactAndHasTheSameBitsEverywhere) {
  const auto& [text, ranks] = GetParam();
  const Expression expression = parse_expression(Collective::allreduce, text);
  if (const std::string reason = expression.why_unsuitable({ranks}); !reason.empty()) {
    // A grid may need more ranks, and a late rank has to be there. That is said before a message is sent.
    EXPECT_NE(reason.find("needs at least"), std::string::npos);
    EXPECT_LT(ranks, text.find("grid") != std::string::npos ? 16 : 3);
    return;
  }
  expect_exact_and_the_same_bits(expression, ranks);
}

INSTANTIATE_TEST_SUITE_P(Allreduce, EveryAlgorithm,
                         testing::Combine(testing::ValuesIn(expressions()), testing::ValuesIn(rank_counts)),
                         readable);

std::vector<Bits> bits_of(const std::string& text, int ranks, std::size_t count) {
  const Expression expression = parse_expression(Collective::allreduce, text);
  Vectors vectors(ranks, {count, Operation::weave});
  run_all(expression, vectors, ranks);
  const std::span<const Bits> result = vectors.output(0);
  return {result.begin(), result.end()};
}

// What the headers of the algorithms say about their order.
TEST(Order, LinearIsTheNaiveLoop) {
  constexpr int ranks = 11;
  constexpr std::size_t count = 50;
  const Vectors vectors(ranks, {count, Operation::weave});
  std::vector<Bits> naive(vectors.input(0).begin(), vectors.input(0).end());
  for (std::size_t rank = 1; rank < ranks; ++rank) {
    std::vector<Bits> right(vectors.input(rank).begin(), vectors.input(rank).end());
    reduction(Operation::weave).host->combine(naive.data(), right.data(), count);
    naive = right;
  }
  EXPECT_EQ(bits_of("linear", ranks, count), naive);
}

TEST(Order, RabenseifnerHasTheBitsOfRecursiveDoubling) {
  for (const int ranks : {2, 4, 7, 8, 16, 24}) {
    EXPECT_EQ(bits_of("rabenseifner", ranks, 100), bits_of("recursive_doubling", ranks, 100)) << ranks;
  }
}

TEST(Order, BinomialHasTheBitsOfRecursiveDoublingForPowersOfTwo) {
  for (const int ranks : {2, 4, 8, 16, 32}) {
    EXPECT_EQ(bits_of("binomial", ranks, 100), bits_of("recursive_doubling", ranks, 100)) << ranks;
  }
}

TEST(Order, TheInputsOfThisTestCanTellOrdersApart) {
  EXPECT_NE(bits_of("ring", 8, 100), bits_of("linear", 8, 100));
}

// The cost formulas in the headers, exactly.
class Cost : public Hockney {
 protected:
  static double time_of(const std::string& text, int ranks, std::size_t bytes) {
    return Hockney::time_of(Collective::allreduce, text, ranks, bytes, bytes);
  }

  // What is left after a late rank, where combining takes no time.
  static double after_a_late_rank(const std::string& text, int ranks, int late, std::size_t bytes) {
    Simulator simulator(ranks, {.inter_alpha = a, .inter_beta = b, .eager_bytes = 0}, {.phantom = true});
    const Expression expression = parse_expression(Collective::allreduce, text);
    const PhantomCalls calls(Collective::allreduce, bytes, ranks);
    std::vector<double> arrivals(static_cast<std::size_t>(ranks));
    arrivals[static_cast<std::size_t>(late)] = 1;
    const auto make = [&](int rank, Endpoint net) {
      return carry_out(net, calls.call_of_rank(rank), expression);
    };
    return simulator.run(make, arrivals, expression.lanes()).last_delay();
  }
};

TEST_F(Cost, RecursiveDoubling) {
  const double n = 1 << 20;
  EXPECT_NEAR(time_of("recursive_doubling", 64, 1 << 20), 6 * (a + n * b + n * c), 1e-12);
  EXPECT_NEAR(time_of("recursive_multiplying(2)", 64, 1 << 20), 6 * (a + n * b + n * c), 1e-12);
  EXPECT_NEAR(time_of("recursive_multiplying(4)", 64, 1 << 20), 3 * (a + 3 * (n * b + n * c)), 1e-12);
}

TEST_F(Cost, Ring) {
  const double n = 1 << 20;
  EXPECT_NEAR(time_of("ring", 16, 1 << 20), 30 * a + 2 * n * 15 / 16 * b + n * 15 / 16 * c, 1e-12);
}

TEST_F(Cost, Rabenseifner) {
  const double n = 1 << 20;
  EXPECT_NEAR(time_of("rabenseifner", 16, 1 << 20), 8 * a + 2 * n * 15 / 16 * b + n * 15 / 16 * c, 1e-12);
}

TEST_F(Cost, Bine) {
  const double n = 1 << 20;
  EXPECT_NEAR(time_of("bine", 16, 1 << 20), 8 * a + 2 * n * 15 / 16 * b + n * 15 / 16 * c, 1e-12);
  EXPECT_NEAR(time_of("bine", 17, 1 << 20), time_of("bine", 16, 1 << 20) + 2 * (a + n * b) + n * c, 1e-12);
}

TEST_F(Cost, StragglerAfterTheLateRank) {
  const double n = 15 << 16;
  EXPECT_NEAR(after_a_late_rank("straggler(3)", 16, 3, 15 << 16), 18 * (a + n / 15 * b), 1e-12);
  EXPECT_NEAR(after_a_late_rank("straggler(0)", 16, 0, 15 << 16), 18 * (a + n / 15 * b), 1e-12);
  EXPECT_NEAR(after_a_late_rank("straggler(20)", 21, 20, 15 << 16), 18 * (a + n / 15 * b) + a + n * b, 1e-12);
}

TEST_F(Cost, PreReducedRingAfterTheLateRank) {
  const double n = 1 << 20;
  EXPECT_NEAR(after_a_late_rank("ring_prereduced(3)", 16, 3, 1 << 20), 32 * (a + n / 16 * b), 1e-12);
  EXPECT_NEAR(after_a_late_rank("ring", 16, 3, 1 << 20), 30 * (a + n / 16 * b), 1e-12);
}

TEST_F(Cost, BinomialOfPowersOfTwo) {
  const double n = 1 << 16;
  EXPECT_NEAR(time_of("binomial", 32, 1 << 16), 5 * (2 * a + 2 * n * b + n * c), 1e-12);
}

TEST_F(Cost, GridIsTheSumOfItsDimensions) {
  EXPECT_NEAR(time_of("grid(8x4, ring, rabenseifner)", 32, 1 << 20),
              time_of("ring", 8, 1 << 20) + time_of("rabenseifner", 4, 1 << 20), 1e-12);
}

TEST_F(Cost, PipelineOverlapsSendingAndCombining) {
  const double whole = time_of("recursive_doubling", 64, 1 << 22);
  const double segments = time_of("pipeline(16, recursive_doubling)", 64, 1 << 22);
  EXPECT_LT(segments, 0.95 * whole);
  const double bandwidth_alone = 6 * (1 << 22) * b;
  EXPECT_GT(segments, bandwidth_alone);
}

TEST_F(Cost, SegmentedRingOverlapsSendingAndCombining) {
  EXPECT_LT(time_of("ring_segmented(16KiB)", 16, 1 << 22), 0.95 * time_of("ring", 16, 1 << 22));
}

TEST(LateRank, MayBeAnyOne) {
  for (const std::string name : {"straggler", "ring_prereduced"}) {
    for (const int ranks : {2, 3, 6, 8}) {
      for (int late = 0; late < ranks; ++late) {
        const std::string text = name + "(" + std::to_string(late) + ")";
        SCOPED_TRACE(text);
        const Expression expression = parse_expression(Collective::allreduce, text);
        Vectors vectors(ranks, {100, Operation::weave});
        std::vector<Bits> reference;
        for (const double lateness : {0.0, 1.0}) {
          vectors.clear(lateness > 0);
          std::vector<double> arrivals(static_cast<std::size_t>(ranks));
          arrivals[static_cast<std::size_t>(late)] = lateness;
          Simulator simulator(ranks, awkward_machine());
          const auto make = [&](int rank, Endpoint net) {
            return carry_out(net, vectors.args(rank), expression);
          };
          simulator.run(make, arrivals, expression.lanes());
          ASSERT_EQ(vectors.problem(reference), "") << ranks << " ranks";
        }
      }
    }
  }
}

// Ranks that are late again and again.
struct Late {
  int ranks;
  std::vector<int> late;
};

constexpr SimulatedMachine fast{.inter_alpha = 1e-5, .inter_beta = 1e-9, .gamma = 1e-11};

class ArrivalOwners : public testing::Test {
 protected:
  // Seconds after the last arrival of each call.
  static std::vector<double> delays(const std::string& text, const Late& who, std::size_t count, int calls,
                                    std::vector<Bits>& reference) {
    const Expression expression = parse_expression(Collective::allreduce, text);
    Simulator simulator(who.ranks, fast, {.learns = true});
    std::vector<double> arrivals(static_cast<std::size_t>(who.ranks));
    for (const int rank : who.late) arrivals[static_cast<std::size_t>(rank)] = 0.1;
    Vectors vectors(who.ranks, {count, Operation::weave});
    std::vector<double> all;
    for (int call = 0; call < calls; ++call) {
      vectors.clear(call % 2 == 1);
      const auto make = [&](int rank, Endpoint net) {
        return carry_out(net, vectors.args(rank), expression);
      };
      all.push_back(simulator.run(make, arrivals, expression.lanes()).last_delay());
      EXPECT_EQ(vectors.problem(reference), "") << "call " << call;
    }
    for (int rank = 0; rank < who.ranks; ++rank) {
      simulator.lateness(rank).begin_call();
      EXPECT_EQ(simulator.lateness(rank).on_time(who.ranks), simulator.lateness(0).on_time(who.ranks));
    }
    return all;
  }
};

TEST_F(ArrivalOwners, ALateRankOwnsNothingInTheNextCall) {
  constexpr std::size_t count = 1 << 20;
  const double bound = sizeof(Bits) * count * fast.inter_beta + 2 * fast.inter_alpha;
  for (const int ranks : {4, 5, 8, 16}) {
    std::vector<Bits> reference;
    for (const int late : {0, ranks / 2, ranks - 1}) {
      const auto all = delays("arrival_owners", {ranks, {late}}, count, 3, reference);
      std::vector<Bits> other;
      const auto ring = delays("ring", {ranks, {late}}, count, 1, other);
      EXPECT_LE(all[0], 1.1 * ring[0]) << ranks << " ranks, " << late << " late for the first time";
      EXPECT_LE(all[1], 1.1 * bound) << ranks << " ranks, " << late << " late again";
      EXPECT_LE(all[2], 1.1 * bound) << ranks << " ranks, " << late << " late again";
    }
  }
}

// As in offbeat simulate: notes are no phantoms.
TEST_F(ArrivalOwners, PhantomsLearn) {
  const Expression expression = parse_expression(Collective::allreduce, "arrival_owners");
  EXPECT_TRUE(expression.learns());
  for (const int ranks : {5, 70}) {
    Simulator simulator(ranks, fast, {.phantom = true, .learns = true});
    const PhantomCalls calls(Collective::allreduce, 1 << 22, ranks);
    const auto make = [&](int rank, Endpoint net) {
      return carry_out(net, calls.call_of_rank(rank), expression);
    };
    std::vector<double> arrivals(static_cast<std::size_t>(ranks));
    arrivals[3] = 0.1;
    const double first = simulator.run(make, arrivals, expression.lanes()).last_delay();
    const double second = simulator.run(make, arrivals, expression.lanes()).last_delay();
    EXPECT_LT(second, first);
    for (int rank = 0; rank < ranks; ++rank) {
      simulator.lateness(rank).begin_call();
      const auto on_time = simulator.lateness(rank).on_time(ranks);
      EXPECT_EQ(on_time.size(), static_cast<std::size_t>(ranks) - 1);
      EXPECT_EQ(std::ranges::count(on_time, 3), 0);
    }
    simulator.forget();
    EXPECT_EQ(simulator.run(make, arrivals, expression.lanes()).last_delay(), first);
  }
}

// Blocks of one piece of 16 KiB would take the time of n bytes twice.
TEST_F(ArrivalOwners, ShortBlocksAreCutOnceSomebodyIsLate) {
  const Expression expression = parse_expression(Collective::allreduce, "arrival_owners");
  constexpr int ranks = 32;
  constexpr std::size_t bytes = 1 << 19;
  Simulator simulator(ranks, fast, {.phantom = true, .learns = true});
  const PhantomCalls calls(Collective::allreduce, bytes, ranks);
  const auto make = [&](int rank, Endpoint net) {
    return carry_out(net, calls.call_of_rank(rank), expression);
  };
  std::vector<double> arrivals(ranks);
  arrivals[5] = 0.1;
  simulator.run(make, arrivals, expression.lanes());
  const double bound = bytes * fast.inter_beta + 2 * fast.inter_alpha;
  EXPECT_LE(simulator.run(make, arrivals, expression.lanes()).last_delay(), 1.35 * bound);
}

TEST_F(ArrivalOwners, AtLeastHalfOfTheRanksOwn) {
  std::vector<Bits> reference;
  delays("arrival_owners", {9, {0, 1, 2, 3, 5, 6, 7}}, 100000, 3, reference);
  delays("arrival_owners", {9, {8, 2}}, 100000, 3, reference);
  delays("arrival_owners", {9, {}}, 100000, 3, reference);
}

TEST_F(ArrivalOwners, NearlyHalfOfTheRanksMayBeLateWhicheverTheyAre) {
  constexpr int ranks = 70;
  constexpr int late = 30;
  for (const int first : {0, ranks - late}) {
    const Expression expression = parse_expression(Collective::allreduce, "arrival_owners");
    Simulator simulator(ranks, fast, {.phantom = true, .learns = true});
    const PhantomCalls calls(Collective::allreduce, 1 << 22, ranks);
    std::vector<double> arrivals(ranks);
    std::fill_n(arrivals.begin() + first, late, 0.1);
    for (int call = 0; call < 3; ++call) {
      simulator.run(
          [&](int rank, Endpoint net) { return carry_out(net, calls.call_of_rank(rank), expression); },
          arrivals, expression.lanes());
      simulator.lateness(0).begin_call();
      const auto on_time = simulator.lateness(0).on_time(ranks);
      EXPECT_EQ(on_time.size(), ranks - late);
      EXPECT_EQ(on_time.front(), first == 0 ? late : 0);
    }
  }
}

TEST_F(ArrivalOwners, WhoComesOnTimeAgainIsAnOwnerAgain) {
  constexpr int ranks = 8;
  const Expression expression = parse_expression(Collective::allreduce, "arrival_owners");
  for (const std::uint64_t seed : {0, 1, 2, 3}) {
    SimulationOptions options{.learns = true};
    if (seed > 0) options.adversary = Adversary{seed};
    Simulator simulator(ranks, fast, options);
    Vectors vectors(ranks, {100000, Operation::weave});
    std::vector<Bits> reference;
    for (int call = 0; call < 12; ++call) {
      std::vector<double> arrivals(ranks);
      if (call % 3 != 2) arrivals[static_cast<std::size_t>(call * 5 % ranks)] = 0.1;
      vectors.clear(call % 2 == 1);
      const auto make = [&](int rank, Endpoint net) {
        return carry_out(net, vectors.args(rank), expression);
      };
      simulator.run(make, arrivals, expression.lanes());
      ASSERT_EQ(vectors.problem(reference), "") << "call " << call << ", seed " << seed;
      if (seed > 0 || call % 3 != 2) continue;
      simulator.lateness(0).begin_call();
      EXPECT_EQ(simulator.lateness(0).on_time(ranks).size(), ranks) << "call " << call;
    }
  }
}

}  // namespace
}  // namespace offbeat
