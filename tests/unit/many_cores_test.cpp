// SPDX-License-Identifier: BSD-3-Clause
// Nodes with many cores: calls among 5 to 256 ranks of a board, in the simulator. Mixed calls with changing
// roots and adversarial timing; bits; and, where reading costs time, how long calls take, how many lines a
// rank reads, and how many ranks read a line. board_test.cpp explores the interleavings of a few ranks.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <iostream>
#include <memory>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "checked_calls.hpp"
#include "collectives/allreduce/short_allreduce.hpp"
#include "collectives/board/immediate_butterfly.hpp"
#include "collectives/board/tree_form.hpp"
#include "collectives/repertoire.hpp"
#include "simulator/simulator.hpp"

namespace offbeat {
namespace {

const Expression shares = parse_expression(Collective::allreduce, "arrival_shares");
const Expression tree = parse_expression(Collective::allreduce, "arrival_tree");

const Expression& on_board(Collective collective) {
  static const Expression scattered[] = {
      parse_expression(Collective::reduce_scatter, "arrival_shares"),
      parse_expression(Collective::reduce_scatter_block, "arrival_shares")};
  if (collective == Collective::allreduce) return shares;
  if (collective == Collective::reduce_scatter) return scattered[0];
  if (collective == Collective::reduce_scatter_block) return scattered[1];
  static const std::vector<Expression> expressions = [] {
    std::vector<Expression> all(collectives.size());
    for (std::size_t k = 0; k < all.size(); ++k) {
      for (const Algorithm* algorithm : repertoire(collective_at(k)).algorithms) {
        if (algorithm->needs.board == OnBoard::one_node && all[k].algorithm == nullptr)
          all[k].algorithm = algorithm;
      }
    }
    return all;
  }();
  return expressions[index_of(collective)];
}

// Eight cores share a last-level cache, as in the core complexes of AMD's Zen 3 and 4. A line from one of
// these takes 40 ns, from another one of the node 150 ns; a core hands over one in 15 ns.
SimulatedMachine many_cores(int ranks, int ranks_per_cache = 8) {
  return {.gamma = 1e-10,
          .copy = 1e-10,
          .line = 40e-9,
          .line_gap = 15e-9,
          .levels = {{.ranks = ranks_per_cache, .line = 40e-9}, {.line = 150e-9}},
          .ranks_per_node = ranks};
}

// Calls, one after the other.

class Sequence {
 public:
  explicit Sequence(int ranks) : ranks_(ranks) {}

  void add(Case what) {
    what.origin = static_cast<Bits>(calls_.size()) * 7;  // what is left of another call is wrong
    calls_.push_back({what, std::make_unique<CheckedCalls>(ranks_, what), {}, 0});
  }
  void add_barrier() { calls_.push_back({{Collective::barrier, 0}, nullptr, {}, 0}); }

  // Empty, or what is wrong.
  std::string run(const SimulationOptions& options) {
    too_early_ = 0;
    for (OneCall& call : calls_) {
      call.begun = 0;
      if (call.checked != nullptr) call.checked->clear();
    }
    Simulator simulator(ranks_, many_cores(ranks_), options);
    simulator.run([&](int, Endpoint net) { return live(net); });
    if (too_early_ > 0) return "a rank left a barrier too early";
    for (OneCall& call : calls_) {
      if (call.checked == nullptr) continue;
      if (std::string problem = call.checked->problem(call.reference); !problem.empty()) return problem;
    }
    return {};
  }

 private:
  struct OneCall {
    Case what;
    std::unique_ptr<CheckedCalls> checked;  // null: a barrier
    std::vector<std::vector<Bits>> reference;
    int begun;
  };
  Task live(Endpoint net) {
    for (OneCall& call : calls_) {
      ++call.begun;
      Call args{Collective::barrier};
      if (call.checked != nullptr) args = call.checked->args(net.rank);
      const bool in_tree = args.collective == Collective::allreduce && call.what.count % 2 != 0;
      co_await carry_out(net, args, in_tree ? tree : on_board(args.collective));
      if (call.checked == nullptr && call.begun < ranks_) ++too_early_;
    }
  }

  int ranks_;
  std::vector<OneCall> calls_;
  int too_early_ = 0;
};

SimulationOptions timing(std::uint64_t seed) {
  SimulationOptions options{.board_window_bytes = 2 * BoardShape::smallest_chunk};
  if (seed > 0) options.adversary = Adversary{seed};
  return options;
}

class ManyCores : public testing::TestWithParam<int> {};

// In lines, in slots and, the longest, through windows.
TEST_P(ManyCores, MixedCallsAreRightForEveryTiming) {
  const int ranks = GetParam();
  constexpr Collective with_data[] = {Collective::allreduce,
                                      Collective::bcast,
                                      Collective::reduce,
                                      Collective::allgather,
                                      Collective::gather,
                                      Collective::scatter,
                                      Collective::alltoallv,
                                      Collective::allgatherv,
                                      Collective::scan,
                                      Collective::exscan,
                                      Collective::alltoall,
                                      Collective::reduce_scatter,
                                      Collective::reduce_scatter_block};
  constexpr std::size_t counts[] = {0, 1, 2, 7, 12, 13, 100, 1024, 1100};
  std::mt19937_64 random(static_cast<std::uint64_t>(ranks));
  Sequence sequence(ranks);
  for (int k = 0; k < 40; ++k) {
    if (random() % 6 == 0) {
      sequence.add_barrier();
      continue;
    }
    Case what{with_data[random() % std::size(with_data)], counts[random() % std::size(counts)]};
    const Roles who = roles_of(what.collective);
    const bool has_blocks = who.is_personalised || what.collective == Collective::allgather ||
                            what.collective == Collective::allgatherv ||
                            what.collective == Collective::gather;
    if (has_blocks) what.count = std::min<std::size_t>(what.count, ranks > 64 ? 2 : 20);
    if (facts_of(what.collective).has_root)
      what.root = static_cast<int>(random() % static_cast<unsigned>(ranks));
    what.in_place = random() % 2 != 0;
    if (facts_of(what.collective).has_operation && random() % 2 != 0) what.operation = Operation::weave;
    sequence.add(what);
  }
  for (std::uint64_t seed = 0; seed < (ranks > 64 ? 3 : 6); ++seed)
    ASSERT_EQ(sequence.run(timing(seed)), "") << "seed " << seed;
}

std::vector<int> many_ranks() {
  std::vector<int> ranks;
  for (int k = 17; k <= 40; ++k) ranks.push_back(k);
  for (const int k : {64, 65, 128, 256}) ranks.push_back(k);
  return ranks;
}
INSTANTIATE_TEST_SUITE_P(Simulated, ManyCores, testing::ValuesIn(many_ranks()),
                         testing::PrintToStringParamName());

class RootsInTurn : public testing::TestWithParam<Collective> {};

// Each call has another root than those before it, so other ranks read a slot.
TEST_P(RootsInTurn, AreRightForEveryTiming) {
  for (const int ranks : {17, 33, 40}) {
    for (const std::size_t count : {1, 20, 1100}) {
      if (count == 1100 && GetParam() != Collective::bcast) continue;  // passed on through windows
      for (const int stride : {1, 5}) {
        Sequence sequence(ranks);
        for (int k = 0; k < ranks; ++k)
          sequence.add({GetParam(), count, k * stride % ranks, Operation::weave, k % 3 == 0});
        for (std::uint64_t seed = 0; seed < 4; ++seed)
          ASSERT_EQ(sequence.run(timing(seed)), "") << ranks << " ranks, seed " << seed;
      }
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Simulated, RootsInTurn,
                         testing::Values(Collective::bcast, Collective::reduce, Collective::gather,
                                         Collective::scatter),
                         [](const auto& info) { return std::string(name_of(info.param)); });

// The bits of an allreduce: in groups of four, from left to right, and so on.
std::vector<Bits> in_groups(std::vector<std::vector<Bits>> values) {
  while (values.size() > 1) {
    std::vector<std::vector<Bits>> combined;
    for (std::size_t k = 0; k < values.size(); ++k) {
      if (k % (1 << tree_bits) == 0) {
        combined.push_back(values[k]);
        continue;
      }
      const void* operands[] = {combined.back().data(), values[k].data()};
      reduction(Operation::weave)(combined.back().data(), operands, 2, values[k].size());
    }
    values = std::move(combined);
  }
  return values.front();
}

// Also if ranks share cores, when they take other forms.
TEST(ManyCores, BitsAreThoseOfGroupsInRankOrderForEveryRoot) {
  for (const auto& [ranks, count] : std::initializer_list<std::pair<int, std::size_t>>{{5, 300},
                                                                                       {7, 400},
                                                                                       {8, 5},
                                                                                       {8, 100},
                                                                                       {8, 500},
                                                                                       {9, 3},
                                                                                       {13, 70},
                                                                                       {16, 5},
                                                                                       {16, 60},
                                                                                       {16, 250},
                                                                                       {16, 500},
                                                                                       {17, 5},
                                                                                       {17, 100},
                                                                                       {23, 5},
                                                                                       {64, 5},
                                                                                       {65, 5},
                                                                                       {130, 5}}) {
    CheckedCalls all(ranks, {Collective::allreduce, count, 0, Operation::weave});
    std::vector<std::vector<Bits>> inputs;
    for (int rank = 0; rank < ranks; ++rank) {
      const auto* input = reinterpret_cast<const Bits*>(all.args(rank).input.data);
      inputs.emplace_back(input, input + count);
    }
    const std::vector<Bits> expected = in_groups(inputs);
    for (const int concurrent_ranks : {ranks, ranks - 1}) {
      SCOPED_TRACE(std::to_string(ranks) + " ranks on " + std::to_string(concurrent_ranks) + " cores, " +
                   std::to_string(count) + " elements");
      const auto result = [&](CheckedCalls& checked, Collective collective, int rank) {
        Simulator simulator(ranks, many_cores(ranks), timing(static_cast<std::uint64_t>(rank)));
        simulator.run([&](int member, Endpoint net) {
          net.board()->concurrent_ranks = concurrent_ranks;
          return carry_out(net, checked.args(member), on_board(collective));
        });
        return checked.result_of(rank);
      };
      EXPECT_EQ(result(all, Collective::allreduce, ranks - 1), expected);
      for (const int root : {0, 1, ranks / 2, ranks - 1}) {
        CheckedCalls one(ranks, {Collective::reduce, count, root, Operation::weave});
        EXPECT_EQ(result(one, Collective::reduce, root), expected) << "root " << root;
      }
    }
  }
}

// So a rule may have both as alternatives.
TEST(ManyCores, SharesHaveTheBitsOfTheTree) {
  for (const Collective collective : {Collective::allreduce, Collective::reduce}) {
    const Expression by_tree = parse_expression(collective, "arrival_tree");
    const Expression by_shares = parse_expression(collective, "arrival_shares");
    ASSERT_EQ(by_tree.operand_order(), by_shares.operand_order());
    for (const int ranks : {2, 3, 4, 5, 7, 8, 13, 16, 17, 20, 23, 48, 63, 64, 65, 96, 130}) {
      for (const std::size_t count : {std::size_t{700}, std::size_t{1100}, std::size_t{9000}}) {
        const int root = ranks / 2;
        std::vector<std::vector<Bits>> results;
        for (const Expression* expression : {&by_tree, &by_shares}) {
          CheckedCalls calls(ranks, {collective, count, root, Operation::weave});
          Simulator simulator(ranks, many_cores(ranks), timing(results.size() * count));
          simulator.run(
              [&](int rank, Endpoint net) { return carry_out(net, calls.args(rank), *expression); });
          results.push_back(calls.result_of(root));
        }
        EXPECT_EQ(results[0], results[1]) << ranks << " ranks, " << count << " elements";
      }
    }
  }
}

int levels(int ranks) {
  int count = 0;
  for (int length = 1; length < ranks; length <<= tree_bits) ++count;
  return count;
}

// Returns how many calls each rank is ahead of rank `late` at most, if that one computes for long before its
// fourth call. Calls have the lengths of `bytes` in turn, and root 0.
std::vector<int> most_calls_ahead(Collective collective, int ranks, int late,
                                  std::initializer_list<std::size_t> bytes) {
  const Reduction sum(ElementType::uint8, ReduceOp::sum);
  const bool only_root_gives = roles_of(collective).root_gives;
  std::vector<int> begun(static_cast<std::size_t>(ranks));
  std::vector<int> ahead(static_cast<std::size_t>(ranks));
  Simulator simulator(ranks, many_cores(ranks), {.phantom = true, .board_window_bytes = 1 << 20});
  simulator.run([&](int rank, Endpoint net) -> Task {
    const auto index = static_cast<std::size_t>(rank);
    for (int number = 1; number <= 12; ++number) {
      constexpr std::size_t long_computation = 1'000'000'000;
      if (rank == late && number == 4)
        co_await net.copy({nullptr, long_computation, 1}, {nullptr, long_computation, 1});
      begun[index] = number;
      ahead[index] = std::max(ahead[index], number - begun[static_cast<std::size_t>(late)]);
      const std::size_t count = bytes.begin()[static_cast<std::size_t>(number) % bytes.size()];
      Call call{collective, {nullptr, count, 1}, {nullptr, count, 1}, &sum};
      if (rank != 0) (only_root_gives ? call.input.count : call.output.count) = 0;
      co_await carry_out(net, call, on_board(collective));
    }
  });
  return ahead;
}

// The records of calls (groups/call_record.hpp) rely on these.
TEST(ManyCores, ARankIsTwoCallsAheadOfAReader) {
  const std::vector<int> of_root = most_calls_ahead(Collective::reduce, 64, 0, {100});
  EXPECT_EQ(of_root[1], 2);
  EXPECT_EQ(of_root[16], 2);
  EXPECT_EQ(of_root[17], 4);  // through rank 16
  EXPECT_EQ(of_root[21], 6);  // through ranks 20 and 16
  EXPECT_EQ(std::ranges::max(of_root), 6);
}

TEST(ManyCores, ARankIsFourCallsAheadOfAReaderIfSlotsAndWindowsTakeTurns) {
  const int of_child = most_calls_ahead(Collective::bcast, 17, 1, {100, 100'000})[0];
  EXPECT_EQ(of_child, 4);
  EXPECT_LT(of_child, BoardShape::records_of_rank);
}

TEST(ManyCores, ClimbAButterflyWhereItIsFaster) {
  using allreduce_algorithms::ShortAllreduce;
  using OfAllreduce = ButterflyOrNot<Collective::allreduce, ShortAllreduce>;
  const auto run = [](int ranks, std::size_t bytes) {
    return immediate_form(*tree.algorithm, ranks, bytes)->run;
  };
  EXPECT_EQ(run(7, 8), run_spinning<WaitForAllSlots<ShortAllreduce>>);
  EXPECT_EQ(run(7, 2048), OfAllreduce::run);
  EXPECT_EQ(run(8, 8), OfAllreduce::run);
  EXPECT_EQ(run(16, 2048), OfAllreduce::run);
  EXPECT_EQ(run(128, 48), OfAllreduce::run);
  EXPECT_EQ(run(16, 2049), run_spinning<TreePass<TreeForm<Collective::allreduce>>>);
  EXPECT_EQ(run(17, 49), run_spinning<TreePass<TreeForm<Collective::allreduce>>>);
  const Algorithm& barrier = *on_board(Collective::barrier).algorithm;
  EXPECT_NE(immediate_form(barrier, 7, 0)->run, immediate_form(barrier, 8, 0)->run);
}

// Costs.

struct Cost {
  double first_us;  // on a new board
  double next_us;   // of one that follows others
  std::uint64_t lines;
  std::uint64_t readers;
};

Cost cost_of(Collective collective, int ranks, std::size_t bytes, int ranks_per_cache = 8) {
  const Reduction sum(ElementType::uint8, ReduceOp::sum);
  const auto call_of = [&](int rank) -> Call {
    if (collective == Collective::barrier) return {collective};
    Call call{collective, {nullptr, bytes, 1}, {nullptr, bytes, 1}, &sum};
    const std::size_t all = bytes * static_cast<std::size_t>(ranks);
    if (collective == Collective::bcast && rank != 0) call.input = {};
    if (collective == Collective::allgather) call.output.count = all;
    if (collective == Collective::gather) call.output.count = rank == 0 ? all : 0;
    if (collective == Collective::scatter) call.input.count = rank == 0 ? all : 0;
    return call;
  };
  Simulator simulator(ranks, many_cores(ranks, ranks_per_cache),
                      {.phantom = true, .board_window_bytes = std::size_t{1} << 20});
  const auto calls = [&](int number) {
    return simulator.run([&](int rank, Endpoint net) -> Task {
      const Call call = call_of(rank);
      for (int k = 0; k < number; ++k) co_await carry_out(net, call, on_board(collective));
    });
  };
  const SimulationResult one = calls(1);
  return {one.last_exit * 1e6, (calls(7).last_exit - calls(3).last_exit) / 4 * 1e6,
          *std::ranges::max_element(one.lines_read), one.most_readers};
}

void print(Collective collective, std::size_t bytes, int ranks, const Cost& cost) {
  std::cout << name_of(collective) << ", " << bytes << " B, " << ranks << " ranks: " << cost.first_us
            << " us, then " << cost.next_us << " us; lines read by a rank: " << cost.lines
            << ", readers of a line: " << cost.readers << "\n";
}

TEST(ManyCoresCost, OfShortCallsGrowsLikeTheLogarithm) {
  constexpr int radix = 1 << tree_bits;
  for (const Collective collective : {Collective::barrier, Collective::allreduce, Collective::bcast,
                                      Collective::allgather, Collective::reduce}) {
    for (const std::size_t bytes : {std::size_t{8}, std::size_t{1024}}) {
      if (collective == Collective::barrier && bytes > 8) continue;
      if (collective == Collective::allgather && bytes > 8) continue;  // then a rank gets p KiB
      const Cost few = cost_of(collective, 16, bytes);
      print(collective, bytes, 16, few);
      // A tree of 32 ranks is compared, because 16 ranks go ahead in short slots, or share the work.
      const Cost few_in_tree = cost_of(collective, 32, bytes);
      for (const int ranks : {64, 128, 256}) {
        SCOPED_TRACE(std::string(name_of(collective)) + " of " + std::to_string(bytes) + " B on " +
                     std::to_string(ranks));
        const Cost many = cost_of(collective, ranks, bytes);
        print(collective, bytes, ranks, many);
        EXPECT_LE(many.first_us, 2.5 * std::max(few.first_us, few_in_tree.first_us));
        EXPECT_LE(many.next_us, 2.5 * few_in_tree.next_us);
        // What a rank gets in a slot, with its number, at each level; or all blocks and a number in each
        // step.
        const auto slot = (bytes + 16 + 63) / 64;
        const auto most = collective == Collective::allgather
                              ? static_cast<std::size_t>(ranks) * bytes / 64 + 2 * 8
                              : static_cast<std::size_t>((radix - 1) * levels(ranks)) * slot + slot + 1;
        EXPECT_LE(many.lines, most);
        if (collective == Collective::allgather) {
          EXPECT_LE(many.readers, 8U);  // one in each step
        } else if (bytes == 8) {
          EXPECT_LE(many.readers, static_cast<std::uint64_t>(radix - 1));
        } else {
          EXPECT_LE(many.readers, static_cast<std::uint64_t>((radix - 1) * levels(ranks)));
        }
      }
    }
  }
}

// Passed on from window to window: a word has the two readers that follow in the tree of a bcast. In an
// allreduce, those of a rank's group read its word on each level, up and down.
TEST(ManyCoresCost, OfLongCallsGrowsLikeTheLogarithm) {
  for (const Collective collective : {Collective::allreduce, Collective::bcast}) {
    for (const std::size_t kib : {8, 64, 1024}) {
      const std::size_t bytes = kib << 10;
      const Cost few = cost_of(collective, 16, bytes);
      print(collective, bytes, 16, few);
      for (const int ranks : {64, 128, 256}) {
        const Cost many = cost_of(collective, ranks, bytes);
        print(collective, bytes, ranks, many);
        EXPECT_LE(many.first_us, 2.5 * few.first_us) << name_of(collective) << " on " << ranks;
        EXPECT_LE(many.next_us, 2.5 * few.next_us) << name_of(collective) << " on " << ranks;
        const int readers = collective == Collective::bcast ? 2 : 3 * (1 << tree_bits) * levels(ranks);
        EXPECT_LE(many.readers, static_cast<std::uint64_t>(readers))
            << name_of(collective) << " on " << ranks;
      }
    }
  }
}

// By doubling: a step for each doubling of the ranks, and a reader of a line in each.
TEST(ManyCoresCost, OfPrefixesGrowsLikeTheLogarithm) {
  for (const Collective collective : {Collective::scan, Collective::exscan}) {
    for (const std::size_t bytes : {8, 512, 4096, 8192}) {
      const Cost few = cost_of(collective, 32, bytes);
      print(collective, bytes, 32, few);
      for (const int ranks : {64, 128, 256}) {
        SCOPED_TRACE(std::string(name_of(collective)) + " of " + std::to_string(bytes) + " B on " +
                     std::to_string(ranks));
        const Cost many = cost_of(collective, ranks, bytes);
        print(collective, bytes, ranks, many);
        EXPECT_LE(many.first_us, 2 * few.first_us);
        EXPECT_LE(many.next_us, 2 * few.next_us);
        EXPECT_LE(many.readers, 8U);
      }
    }
  }
}

// Ranks in turn on all caches, so that no two that talk to each other share one. The steps are the same.
TEST(ManyCoresCost, OfRanksThatShareNoCacheIsThatOfFarLines) {
  constexpr int ranks = 256;
  for (const Collective collective : {Collective::barrier, Collective::allreduce, Collective::bcast,
                                      Collective::allgather, Collective::reduce}) {
    const Cost near = cost_of(collective, ranks, 8);
    const Cost far = cost_of(collective, ranks, 8, 1);
    print(collective, 8, ranks, far);
    EXPECT_GE(far.first_us, near.first_us) << name_of(collective);
    EXPECT_LE(far.first_us, 1.6 * near.first_us) << name_of(collective);
    EXPECT_EQ(far.lines, near.lines) << name_of(collective);
    EXPECT_EQ(far.readers, near.readers) << name_of(collective);
  }
}

// No rank reads a sign of every other one, which it would after a collective in which not all ranks meet.
TEST(ManyCoresCost, CallsInWhichNotAllMeetDoNotReadTheSignsOfAll) {
  constexpr int ranks = 256;
  for (const Collective collective : {Collective::bcast, Collective::reduce, Collective::gather,
                                      Collective::scatter, Collective::scan, Collective::exscan}) {
    Simulator simulator(ranks, many_cores(ranks), {.phantom = true, .board_window_bytes = 4096});
    const auto lines_of = [&](int calls) {
      const SimulationResult result = simulator.run([&](int rank, Endpoint net) -> Task {
        const Reduction sum(ElementType::uint8, ReduceOp::sum);
        for (int k = 0; k < calls; ++k) {
          const int root = k * 37 % ranks;
          Call call{collective, {nullptr, 1, 1}, {nullptr, 1, 1}, &sum, root};
          if (collective == Collective::gather) call.output.count = ranks;
          if (collective == Collective::scatter && rank == root) call.input.count = ranks;
          co_await carry_out(net, call, on_board(collective));
        }
      });
      return *std::ranges::max_element(result.lines_read);
    };
    // In ten calls the signs of all would be more than 2560 lines.
    EXPECT_LE(lines_of(10), 10U * (2 * 3 * 4 + 8)) << name_of(collective);
  }
}

// Signs of the model itself: see SimulatedMachine.
TEST(SimulatedLines, TakeLatencyAndGap) {
  const std::vector<Level> two{{.ranks = 2, .line = 1}, {.line = 10}};
  SimulatedMachine machine{.line = 1, .line_gap = 0.25, .levels = two, .ranks_per_node = 4};
  const auto exits = [&](auto fetches) {
    Simulator simulator(4, machine, {.board_window_bytes = BoardShape::smallest_chunk});
    return simulator.run([&](int rank, Endpoint net) -> Task { co_await fetches(*net.board(), rank); });
  };
  int word = 0;
  const auto near_and_far = [&](Board& board, int rank) {
    return board.charge_fetch(rank ^ 1, &word, rank < 2 ? 64 : 65);
  };
  EXPECT_EQ(exits(near_and_far).exits, (std::vector<double>{1, 1, 1.25, 1.25}));
  const auto from_one = [&](Board& board, int) { return board.charge_fetch(0, &word, 8); };
  const SimulationResult all = exits(from_one);
  EXPECT_EQ(all.exits, (std::vector<double>{0, 1, 10.25, 10.5}));  // its own is free
  EXPECT_EQ(all.lines_read, (std::vector<std::uint64_t>{0, 1, 1, 1}));
  EXPECT_EQ(all.most_readers, 3U);
  machine.levels.clear();
  EXPECT_EQ(exits(from_one).last_exit, 0);
}

TEST(SimulatedLines, AreTakenFromTheirReadersByAWriter) {
  SimulatedMachine machine{.gamma = 1, .copy = 1, .line = 1, .put_line = 128};
  const auto last_exit = [&](auto work) {
    Simulator simulator(1, machine, {.phantom = true, .board_window_bytes = BoardShape::smallest_chunk});
    simulator.set_call_bytes(1000);
    return simulator.run([&](int, Endpoint net) -> Task { co_await work(net); }).last_exit;
  };
  const auto window = [](Endpoint net) { return Vector{net.board()->window(1, 0), 128, 1}; };
  const auto put = [&](Endpoint net) { return net.put(window(net), ConstVector{nullptr, 128, 1}); };
  EXPECT_EQ(last_exit(put), 2 * 128);
  const auto copy = [&](Endpoint net) { return net.copy(window(net), ConstVector{nullptr, 128, 1}); };
  EXPECT_EQ(last_exit(copy), 128);
  machine.beyond = {{.cache_bytes = 0, .gamma = 1.5, .copy = 1.5}};
  EXPECT_EQ(last_exit(put), 2 * 128);
  machine.beyond = {{.cache_bytes = 0, .gamma = 3, .copy = 3}};
  EXPECT_EQ(last_exit(put), 3 * 128) << "lines come while the core copies";
  // Perhaps the reader is the farthest core that shares the board.
  machine.beyond.clear();
  machine.levels = {{.ranks = 1, .per_byte = 3}, {.per_byte = 4}};
  EXPECT_EQ(last_exit(put), 128 * 3);
  machine.levels.front().per_byte = 0.5;
  EXPECT_EQ(last_exit(put), 2 * 128) << "put_line is longer";
}

// Rank 0 writes what a rank of its pair, or of the other pair, has read in the run before.
TEST(SimulatedLines, OfAWriterComeFromWhereTheyWereRead) {
  const SimulatedMachine machine{
      .copy = 1,
      .line = 1,
      .levels = {{.ranks = 2, .line = 1, .per_byte = 2}, {.line = 1, .per_byte = 3}},
      .ranks_per_node = 4};
  const auto time_of_writer = [&](int reader, int second_writer) {
    Simulator simulator(4, machine, {.phantom = true, .board_window_bytes = BoardShape::smallest_chunk});
    const auto run = [&](int writer) {
      const auto one = [&](int rank, Endpoint net) -> Task {
        const Vector window{net.board()->window(1, 0), 64, 1};
        if (rank == writer) co_await net.put(window, ConstVector{nullptr, 64, 1});
        if (rank != reader) co_return;
        co_await simulator.pause(rank, 1000);
        co_await net.board()->charge_fetch(0, window.data, window.bytes());
      };
      return simulator.run(one).exits[static_cast<std::size_t>(writer)];
    };
    EXPECT_FALSE(simulator.knows_uses());
    EXPECT_EQ(run(0), 64 * 3) << "nobody knows who had them";
    EXPECT_TRUE(simulator.knows_uses());
    const double second = run(second_writer);
    simulator.forget_uses();
    EXPECT_EQ(run(0), 64 * 3);
    return second;
  };
  EXPECT_EQ(time_of_writer(-1, 0), 64) << "nobody has read them";
  EXPECT_EQ(time_of_writer(1, 0), 64 * 2);
  EXPECT_EQ(time_of_writer(3, 0), 64 * 3);
  EXPECT_EQ(time_of_writer(-1, 1), 64 * 2) << "rank 0 has written them";
  EXPECT_EQ(time_of_writer(-1, 2), 64 * 3);
}

TEST(SimulatedLines, ComeWhileTheCoreCopiesThem) {
  SimulatedMachine machine{
      .copy = 1, .line = 1, .levels = {{.line = 10, .per_byte = 0.5}}, .ranks_per_node = 2};
  const auto last_exit = [&](bool puts) {
    Simulator simulator(2, machine, {.phantom = true, .board_window_bytes = BoardShape::smallest_chunk});
    const auto one = [&](int rank, Endpoint net) -> Task {
      if (rank == 0) co_return;
      const ConstVector theirs{net.board()->window(1, 0), 128, 1};
      co_await net.board()->charge_fetch(0, theirs.data, theirs.bytes());
      const Vector mine{puts ? net.board()->window(1, 1) : nullptr, 128, 1};
      co_await net.copy(mine, theirs);
    };
    return simulator.run(one).last_exit;
  };
  EXPECT_EQ(last_exit(false), 10 + 128);
  EXPECT_EQ(last_exit(true), 10 + 128) << "96 to read and to take the lines of both sides";
  machine.levels.front().per_byte = 4;
  EXPECT_EQ(last_exit(false), 10 + 64 * 4);
  EXPECT_EQ(last_exit(true), 10 + 64 * 4 + 128 * 4);
}

// Two pairs of ranks, and 128 bytes a second for each byte that enters a pair or leaves it.
TEST(SimulatedLines, OfManyQueueAtTheLinkOfALevel) {
  SimulatedMachine machine{
      .line = 1,
      .levels = {{.ranks = 2, .line = 1, .link_rate = 32}, {.line = 10, .per_byte = 0.125}},
      .ranks_per_node = 4};
  const auto exits = [&](auto source_of, std::size_t bytes) {
    Simulator simulator(4, machine, {.board_window_bytes = BoardShape::smallest_chunk});
    const auto run = [&](int rank, Endpoint net) -> Task {
      if (rank >= 2) co_await net.board()->charge_fetch(source_of(rank), nullptr, bytes);
    };
    return simulator.run(run).exits;
  };
  const auto near = [](int rank) { return rank ^ 1; };
  const auto far = [](int rank) { return rank - 2; };
  EXPECT_EQ(exits(near, 256), (std::vector<double>{0, 0, 1, 1}));
  EXPECT_EQ(exits(far, 64), (std::vector<double>{0, 0, 10, 10})) << "a single line does not queue";
  EXPECT_EQ(exits(far, 128), (std::vector<double>{0, 0, 10 + 8, 10 + 8}));
  EXPECT_EQ(exits(far, 256), (std::vector<double>{0, 0, 10 + 24, 10 + 24})) << "192 bytes at 0.125";
  machine.levels.back().per_byte = 0.015625;
  EXPECT_EQ(exits(far, 256), (std::vector<double>{0, 0, 10 + 8, 10 + 16})) << "256 bytes at 32 a second";
}

TEST(SimulatedLines, OfMessagesTakeTheTimeOfTheLevel) {
  const SimulatedMachine machine{
      .intra_alpha = 1,
      .levels = {{.ranks = 2, .line = 1, .per_byte = 1}, {.line = 4, .per_byte = 3}},
      .message_lines = 2,
      .intra_send_copy = 1,
      .intra_receive_copy = 1,
      .ranks_per_node = 4};
  const auto last_exit = [&](int source) {
    Simulator simulator(4, machine, {.phantom = true});
    const Vector data{nullptr, 100, 1};
    return simulator
        .run([&](int, Endpoint net) -> Task {
          if (net.rank == source) co_await net.send(3, data);
          if (net.rank == 3) co_await net.receive(source, data);
        })
        .last_exit;
  };
  EXPECT_EQ(last_exit(2), 1 + 100);
  // Six for two lines; the sender takes the lines in 200 beside its copy, then the receiver reads them.
  EXPECT_EQ(last_exit(0), 1 + 6 + 200 + 300);
}

TEST(SimulatedLines, FromMemoryShareTheRateOfTheGroupThatHasLeast) {
  SimulatedMachine machine{.copy = 1,
                           .levels = {{.ranks = 2, .memory_rate = 1}, {.ranks = 4, .memory_rate = 4}},
                           .ranks_per_node = 4,
                           .beyond = {{.copy = 1}}};
  const auto last_exit = [&](std::size_t call_bytes) {
    Simulator simulator(4, machine, {.phantom = true});
    simulator.set_call_bytes(call_bytes);
    const Vector data{nullptr, 100, 1};
    return simulator.run([&](int, Endpoint net) -> Task { co_await net.copy(data, data); }).last_exit;
  };
  EXPECT_EQ(last_exit(0), 100);
  EXPECT_EQ(last_exit(8), 2 * 200) << "two ranks of a pair read and write";
  machine.levels.front().memory_rate = 8;
  EXPECT_EQ(last_exit(8), 4 * 200 / 4.0);
}

TEST(SimulatedLines, GoBothWaysInAnExchangeOfMarks) {
  SimulatedMachine machine{.line = 1, .levels = {{.ranks = 2, .line = 1}, {.line = 10}}, .ranks_per_node = 2};
  const auto last_exit = [&] {
    Simulator simulator(machine.ranks_per_node, machine, {.board_window_bytes = BoardShape::smallest_chunk});
    return simulator
        .run([](int, Endpoint net) -> Task {
          Board& board = *net.board();
          co_await board.exchange(board.round_word(1, 0), {1, net.rank});
        })
        .last_exit;
  };
  EXPECT_EQ(last_exit(), 1 + 1);
  machine.ranks_per_node = 4;  // two of which are far from the other two
  EXPECT_EQ(last_exit(), 10 + 1);
  machine.ranks_per_node = 1;
  EXPECT_EQ(last_exit(), 1);
  machine.ranks_per_node = 4;
  machine.levels.clear();
  EXPECT_EQ(last_exit(), 1);
}

TEST(SimulatedLines, ThatARankGivesTakeTimeBesideTheFirst) {
  SimulatedMachine machine{.line = 1, .put_line = 4, .ranks_per_node = 2};
  const auto last_exit = [&](std::size_t bytes) {
    Simulator simulator(2, machine, {.board_window_bytes = BoardShape::smallest_chunk});
    return simulator.run([&](int, Endpoint net) -> Task { co_await net.board()->touch(bytes); }).last_exit;
  };
  EXPECT_EQ(last_exit(0), 1);
  EXPECT_EQ(last_exit(64), 1);
  EXPECT_EQ(last_exit(65), 1 + 4);
}

TEST(SimulatedLines, OfOneRankLeaveItFasterThanOtherMemoryBeyondACache) {
  SimulatedMachine machine{
      .copy = 1, .line = 1, .line_gap = 128, .levels = {{.line = 1}}, .ranks_per_node = 2};
  const auto last_exit = [&] {
    Simulator simulator(2, machine, {.board_window_bytes = BoardShape::smallest_chunk});
    simulator.set_call_bytes(1000);
    return simulator
        .run([&](int rank, Endpoint net) -> Task {
          co_await net.board()->charge_fetch(rank ^ 1, nullptr, 128);
        })
        .last_exit;
  };
  EXPECT_EQ(last_exit(), 1 + 128);
  machine.beyond = {{.cache_bytes = 0, .copy = 2}};
  EXPECT_EQ(last_exit(), 1 + 64);
}

}  // namespace
}  // namespace offbeat
