// SPDX-License-Identifier: BSD-3-Clause
// What offbeat computes for itself raises no floating-point exception that the program could trap or see, and
// does not depend on how the program rounds.
#include <gtest/gtest.h>

#include <algorithm>
#include <cfenv>
#include <cstdint>
#include <cstdio>
#include <fstream>
#include <limits>
#include <string>
#include <vector>

#include "base/own_floating_point.hpp"
#include "base/time.hpp"
#include "node/cores.hpp"
#include "node/patience.hpp"
#include "node/shared_copies.hpp"
#include "selection/selection.hpp"
#include "selection/trial.hpp"
#include "simulator/simulator.hpp"

namespace offbeat {
namespace {

// Returns the exceptions that `body` leaves behind.
template <class Body>
int raised(Body&& body) {
  std::feclearexcept(FE_ALL_EXCEPT);
  body();
  return std::fetestexcept(FE_ALL_EXCEPT);
}

TEST(OwnFloatingPoint, IsTheDefaultOneAndThenTheProgramsAgain) {
  volatile double one = 1;
  std::fesetround(FE_UPWARD);
  std::feclearexcept(FE_ALL_EXCEPT);
  std::feraiseexcept(FE_OVERFLOW);
  {
    const OwnFloatingPoint own;
    EXPECT_EQ(std::fegetround(), FE_TONEAREST);
    EXPECT_EQ(std::fetestexcept(FE_ALL_EXCEPT), 0);
    one = one / 3;
    EXPECT_EQ(std::fetestexcept(FE_ALL_EXCEPT), FE_INEXACT);
  }
  EXPECT_EQ(std::fegetround(), FE_UPWARD);
  EXPECT_EQ(std::fetestexcept(FE_ALL_EXCEPT & ~FE_INEXACT), FE_OVERFLOW);
  std::fesetround(FE_TONEAREST);
}

#ifdef __x86_64__  // most AArch64 processors trap nothing
TEST(OwnFloatingPoint, TrapsNothing) {
  volatile double one = 1;
  feenableexcept(FE_INEXACT);
  {
    const OwnFloatingPoint own;
    one = one / 3;
  }
  EXPECT_EQ(fegetexcept(), FE_INEXACT);
  fedisableexcept(FE_ALL_EXCEPT);
}
#endif

TEST(Seconds, BecomeNanosecondsWithoutRounding) {
  static_assert(positive_seconds_to_ns(1) == ns_per_s);
  static_assert(positive_seconds_to_ns(0.25) == 250 * ns_per_ms);
  static_assert(positive_seconds_to_ns(3e9) == 3'000'000'000 * ns_per_s);
  static_assert(positive_seconds_to_ns(1e-300) == 1);
  static_assert(positive_seconds_to_ns(std::numeric_limits<double>::denorm_min()) == 1);
  static_assert(positive_seconds_to_ns(1e300) > 100L * 365 * 86400 * ns_per_s);
  static_assert(positive_seconds_to_ns(std::numeric_limits<double>::infinity()) ==
                positive_seconds_to_ns(1e300));
  for (const double seconds : {1e-6, 0.1, 0.3, 1.7, 12345.678, 8e9}) {
    const double exact = seconds * 1e9;
    EXPECT_NEAR(static_cast<double>(positive_seconds_to_ns(seconds)), exact, 1 + exact * 1e-15) << seconds;
  }
  volatile double timeout_s = 0.3;
  std::int64_t ns = 0;
  EXPECT_EQ(raised([&] { ns = positive_seconds_to_ns(timeout_s); }), 0) << ns;
}

TEST(FloatingPoint, IsNotUsedInWaits) {
  static int stalls = 0;
  EXPECT_EQ(raised([] {
              for (const bool shares : {false, true}) {
                Bell bell;
                for (Bell* const rung : {&bell, static_cast<Bell*>(nullptr)}) {
                  const Patience patience{
                      .shares_cores = shares,
                      .sleep_after_ns = 0,
                      .bell = rung,
                      .stall = {.after_ns = ns_per_ms, .call = [](void*, std::int64_t, bool) { ++stalls; }}};
                  Patience::Wait wait(patience);
                  const int before = stalls;
                  while (stalls == before) wait.pause();
                  for (int k = 0; k < 50; ++k) wait.pause();
                }
              }
              for (int k = 0; k < 20; ++k) static_cast<void>(WantedCore::is_wanted_in_host());
            }),
            0);
}

TEST(FloatingPoint, IsNotUsedInCopies) {
  char from[4096] = {};
  char to[4096];
  static std::int64_t now = 0;
  SharedCopies copies;
  const CopyFunctions ways{.now_ns = [] { return now += 333; }};
  EXPECT_EQ(raised([&] {
              for (int k = 0; k < 200; ++k) copies.copy(to, from, sizeof to, ways);
            }),
            0);
}

TEST(FloatingPoint, IsNotSeenFromTheQuota) {
  const std::string file = testing::TempDir() + "cpu.max.of.floating_point";
  std::ofstream(file) << "150000 100000\n";
  EXPECT_EQ(raised([&] { EXPECT_EQ(core_quota(file.c_str()), 2); }), 0);
  std::remove(file.c_str());
}

TEST(FloatingPoint, IsNotSeenFromATrial) {
  Trial trial(2, CombineTimes::shortest);
  EXPECT_EQ(raised([&] {
              for (std::uint64_t k = 1; k < 200; ++k) {
                if (!trial.try_count_call()) {
                  const std::size_t slot = trial.count_call();
                  if (slot != Trial::no_slot) trial.set_time(slot, 1000 + 7 * k);
                }
                if (trial.is_due()) trial.decide();
              }
            }),
            0);
  EXPECT_GT(trial.estimate(trial.pinned()), 0U);
}

// If ranks that round in different ways had different grids, they would wait for each other forever.
TEST(FloatingPoint, ChoosesEqualGridsHoweverTheProgramRounds) {
  const std::string file = testing::TempDir() + "machine.of.floating_point";
  std::ofstream(file) << "name = 'mine'\n[core]\ncombine_ns_per_byte = 0.1\n"
                         "[within_node]\nlatency_us = 0.3\nbandwidth_gb_per_s = 7\n"
                         "[between_nodes]\nlatency_us = 1.7\nbandwidth_gb_per_s = 1.1\n";
  Settings settings = Settings::from_environment();
  settings.machine = file;
  settings.algorithms[index_of(Collective::allreduce)] = "grid(auto)";
  const auto chosen = [&] {
    Selection selection;
    selection.set_initial_choice(settings);
    std::string all;
    for (const PlanRow& row : selection.plan(Collective::allreduce, {.ranks = 60, .nodes = 60}).rows)
      all += std::to_string(row.bytes.least) + ": " + row.expression->canonical_text() + "\n";
    return all;
  };
  std::string usual;
  EXPECT_EQ(raised([&] { usual = chosen(); }), 0);
  EXPECT_NE(usual.find("grid("), std::string::npos) << usual;
  for (const int mode : {FE_UPWARD, FE_DOWNWARD, FE_TOWARDZERO}) {
    std::fesetround(mode);
    const std::string found = chosen();
    std::fesetround(FE_TONEAREST);
    EXPECT_EQ(found, usual);
  }
  std::remove(file.c_str());
}

// Which ranks combine: the result of this operation tells, as that of a sum tells the rounding mode.
struct ByRank final : HostCombine {
  std::uint32_t rank = 0;
  void combine(const void* left, void* right, std::size_t count) const override {
    const auto* from = static_cast<const std::uint32_t*>(left);
    auto* to = static_cast<std::uint32_t*>(right);
    for (std::size_t k = 0; k < count; ++k) to[k] = (to[k] + from[k] * 0x9E3779B1) * 31 + rank;
  }
};

// Returns true if all ranks have the same result of an allreduce, although each combines in its own way.
bool combines_once(const std::string& text, int ranks, int per_node, std::size_t count) {
  const auto p = static_cast<std::size_t>(ranks);
  std::vector<ByRank> operations(p);
  std::vector<Reduction> reductions;
  std::vector<std::vector<std::uint32_t>> inputs(p), outputs(p, std::vector<std::uint32_t>(count));
  for (std::size_t rank = 0; rank < p; ++rank) {
    operations[rank].rank = static_cast<std::uint32_t>(rank);
    reductions.emplace_back(sizeof(std::uint32_t), operations[rank]);
    for (std::size_t k = 0; k < count; ++k) inputs[rank].push_back(static_cast<std::uint32_t>(rank * 77 + k));
  }
  const Expression expression = parse_expression(Collective::allreduce, text);
  Simulator simulator(ranks, {.ranks_per_node = per_node}, {.board_window_bytes = 8192});
  simulator.run(
      [&](int rank, Endpoint net) {
        const auto of = static_cast<std::size_t>(rank);
        Call call(Collective::allreduce);
        call.input = {reinterpret_cast<std::byte*>(inputs[of].data()), count, sizeof(std::uint32_t)};
        call.output = {reinterpret_cast<std::byte*>(outputs[of].data()), count, sizeof(std::uint32_t)};
        call.op = &reductions[of];
        return carry_out(net, call, expression);
      },
      {}, expression.lanes());
  return std::ranges::all_of(outputs, [&](const auto& output) { return output == outputs.front(); });
}

// docs/explanation/bits.md has these lists.
TEST(RoundingModes, OfOneRankDecideForAllInSomeAlgorithms) {
  constexpr std::size_t is_short = 3;
  constexpr std::size_t is_long = 5000;
  for (const int ranks : {4, 7}) {
    for (const std::size_t count : {is_short, is_long}) {
      const auto expect = [&](bool once, int per_node, const std::vector<std::string>& texts) {
        for (const std::string& text : texts)
          EXPECT_EQ(combines_once(text, ranks, per_node, count), once)
              << text << ", " << ranks << " ranks, " << count;
      };
      expect(true, 1,
             {"linear", "binomial", "ring", "ring_segmented(64B)", "ring_prereduced(0)", "rabenseifner",
              "bine", "arrival_owners", "pipeline(2, ring)"});
      expect(true, ranks, {"arrival_leader", "arrival_chain"});
      expect(true, 2, {"hierarchy(arrival_tree, ring)", "lanes(arrival_tree, ring)"});
      expect(false, 1, {"recursive_doubling", "recursive_multiplying(4)", "straggler(1)", "grid(2x2, ring)"});
      expect(false, 2, {"nap", "smp", "hierarchy(arrival_tree, recursive_doubling)"});
      expect(count == is_long, ranks, {"arrival_tree"});
    }
  }
  EXPECT_FALSE(combines_once("arrival_tree", 20, 20, is_short)) << "in a butterfly";
  EXPECT_TRUE(combines_once("arrival_tree", 20, 20, 100)) << "in a tree";
  EXPECT_TRUE(combines_once("arrival_tree", 20, 20, is_long));
}

}  // namespace
}  // namespace offbeat
