// SPDX-License-Identifier: BSD-3-Clause
// Every algorithm on the board, in virtual time: adversarial timing for many ranks, all interleavings of a
// few.
//
// Checked: integers are exact; floats have the same bits on every rank and, where the algorithm promises it,
// for every arrival order; inputs are untouched; nothing is written beside an output; no deadlock, no data
// race.
#include "simulator/board.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <cctype>
#include <cmath>
#include <cstdint>
#include <cstdlib>
#include <functional>
#include <iostream>
#include <map>
#include <numeric>
#include <random>
#include <span>
#include <stdexcept>
#include <string>
#include <string_view>
#include <tuple>
#include <unordered_map>
#include <utility>
#include <vector>

#include "base/error.hpp"
#include "checked_calls.hpp"
#include "collectives/allreduce/allreduce.hpp"
#include "collectives/bcast/bcast.hpp"
#include "collectives/board/board_round.hpp"
#include "collectives/board/bruck_in_slots.hpp"
#include "collectives/board/immediate_butterfly.hpp"
#include "collectives/board/relayed_bcast.hpp"
#include "collectives/board/tree_form.hpp"
#include "collectives/repertoire.hpp"
#include "simulator/simulator.hpp"
#include "vectors.hpp"

namespace offbeat {
namespace {

constexpr std::size_t tiny_window = 8192;  // two chunks: a few thousand elements take several rounds

std::vector<std::string> algorithms_on_board() {
  std::vector<std::string> names;
  for (const Algorithm* algorithm : repertoire(Collective::allreduce).algorithms) {
    if (algorithm->needs.board == OnBoard::one_node) names.emplace_back(algorithm->name);
  }
  return names;
}

// An algorithm that has an immediate form, without it: its short messages go in chunks, like long ones.
constexpr std::string_view in_chunks = "_in_chunks";

Expression without_immediate(Expression expression) {
  static std::map<const Algorithm*, Algorithm> chunked;
  Algorithm& algorithm = chunked.try_emplace(expression.algorithm, *expression.algorithm).first->second;
  algorithm.immediate = nullptr;
  expression.algorithm = &algorithm;
  return expression;
}

std::vector<std::string> forms_on_board() {
  std::vector<std::string> forms;
  for (const std::string& name : algorithms_on_board()) {
    forms.push_back(name);
    if (parse_expression(Collective::allreduce, name).algorithm->immediate != nullptr)
      forms.push_back(name + std::string(in_chunks));
  }
  return forms;
}

Expression expression_of(const std::string& form) {
  if (!form.ends_with(in_chunks)) return parse_expression(Collective::allreduce, form);
  return without_immediate(
      parse_expression(Collective::allreduce, form.substr(0, form.size() - in_chunks.size())));
}

const std::vector<std::string> hierarchies = {
    "hierarchy(arrival_tree, recursive_doubling)",
    "hierarchy(arrival_tree, pipeline(2, ring))",
    "hierarchy(arrival_leader, ring)",
    "hierarchy(arrival_chain, rabenseifner)",
    "lanes(arrival_tree, ring)",
    "lanes(arrival_tree, pipeline(2, rabenseifner))",
    "lanes(arrival_tree, bine)",
    "lanes(arrival_leader, recursive_doubling)",
    "lanes(arrival_chain, arrival_owners)",
    "lanes(arrival_shares, rabenseifner)",
    "hierarchy(arrival_shares, recursive_doubling)",
    "nap",
    "smp",
};

// Ways to place ranks on nodes.
const std::vector<std::function<int(int rank)>> placements = {
    [](int) { return 0; },
    [](int rank) { return rank / 3; },
    [](int rank) { return rank % 3; },
    [](int rank) { return rank * rank % 7; },
    [](int rank) { return rank == 5 ? 0 : 1 + rank / 40; },
};

// Adversarial timing.

using Sequence = std::vector<Vectors*>;
using Delay = std::function<Simulator::Pause(int rank, std::size_t k)>;

// One after the other on the same board.
Task several(Endpoint net, const Sequence& sequence, const Expression& expression, const Delay& delay) {
  for (std::size_t k = 0; k < sequence.size(); ++k) {
    co_await delay(net.rank, k);
    co_await carry_out(net, sequence[k]->args(net.rank), expression);
  }
}

class OnTheBoard : public testing::TestWithParam<std::tuple<std::string, int>> {
 protected:
  // Under several adversaries; seed 0 is none.
  static void expect_exact(const std::vector<int>& node_of_rank) {
    const auto& [text, ranks] = GetParam();
    const Expression expression = parse_expression(Collective::allreduce, text);
    const auto p = static_cast<std::size_t>(ranks);
    std::vector<Vectors> messages;
    for (const std::size_t count : {std::size_t{0}, std::size_t{1}, p - 1, p, p + 1, std::size_t{1000},
                                    std::size_t{2049}, std::size_t{5000}}) {
      for (const auto operation : {Operation::int_sum, Operation::float_sum, Operation::weave}) {
        messages.emplace_back(ranks, Message{count, operation});
      }
    }
    std::vector<std::vector<Bits>> references(messages.size());

    for (std::uint64_t seed = 0; seed < 10; ++seed) {
      SCOPED_TRACE("seed " + std::to_string(seed));
      std::mt19937_64 random(seed * 7919 + p);
      std::vector<std::size_t> order(messages.size());
      std::iota(order.begin(), order.end(), std::size_t{0});
      std::ranges::shuffle(order, random);
      Sequence sequence;
      for (const std::size_t k : order) {
        messages[k].clear(random() % 2 != 0);
        sequence.push_back(&messages[k]);
      }
      // From far less than what a collective takes to far more.
      std::uniform_real_distribution<double> exponent(-8, -3);
      std::vector<double> delays(p * sequence.size());
      for (double& delay : delays) delay = std::pow(10, exponent(random));

      SimulationOptions options{.board_window_bytes = tiny_window};
      if (seed > 0) options.adversary = Adversary{seed};
      Simulator simulator(ranks, {.gamma = 1e-10, .copy = 1e-10, .node_of_rank = node_of_rank}, options);
      const Delay delay = [&](int rank, std::size_t k) {
        return simulator.pause(rank, delays[static_cast<std::size_t>(rank) * sequence.size() + k]);
      };
      simulator.run([&](int, Endpoint net) { return several(net, sequence, expression, delay); }, {},
                    expression.lanes());

      for (std::size_t k = 0; k < messages.size(); ++k) {
        if (!expression.same_bits_every_run()) references[k].clear();
        ASSERT_EQ(messages[k].problem(references[k]), "");
      }
    }
  }
};

TEST_P(OnTheBoard, IsExactAndHasTheSameBitsForEveryTiming) {
  const auto& [text, ranks] = GetParam();
  const bool one_node =
      parse_expression(Collective::allreduce, text).algorithm->needs.board == OnBoard::one_node;
  for (std::size_t placement = 0; placement < (one_node ? 1 : placements.size()); ++placement) {
    SCOPED_TRACE("placement " + std::to_string(placement));
    std::vector<int> node_of_rank;
    for (int rank = 0; rank < ranks; ++rank) node_of_rank.push_back(placements[placement](rank));
    expect_exact(node_of_rank);
  }
}

INSTANTIATE_TEST_SUITE_P(Algorithm, OnTheBoard,
                         testing::Combine(testing::ValuesIn(algorithms_on_board()),
                                          testing::ValuesIn(rank_counts)),
                         readable);
INSTANTIATE_TEST_SUITE_P(Hierarchy, OnTheBoard,
                         testing::Combine(testing::ValuesIn(hierarchies), testing::ValuesIn(rank_counts)),
                         readable);

// Virtual time.

constexpr SimulatedMachine node_of_four{
    .gamma = 0x1p-30, .copy = 0x1p-31, .line = 0x1p-23, .ranks_per_node = 4};

Task tree(Endpoint net, Vectors& vectors) {
  static const Expression expression = parse_expression(Collective::allreduce, "arrival_tree");
  return carry_out(net, vectors.args(net.rank), expression);
}

TEST(SimulatedBoard, LastArrivalWaitsForNothing) {
  constexpr double n = 1000 * sizeof(Bits);
  Vectors vectors(4, {1000, Operation::int_sum});
  Simulator simulator(4, node_of_four, {.board_window_bytes = tiny_window});
  const auto last_delay = [&](const std::vector<double>& arrivals) {
    return simulator.run([&](int, Endpoint net) { return tree(net, vectors); }, arrivals).last_delay();
  };
  // Two levels, the own copy of the result, a mark, the copies of the others.
  const double expected = n * node_of_four.gamma + (n * node_of_four.gamma + n * node_of_four.copy) +
                          node_of_four.line + n * node_of_four.copy;
  EXPECT_EQ(last_delay({0, 1, 2, 3}), expected);
  EXPECT_EQ(last_delay({3, 0, 1, 2}), expected);  // and the board is as new
}

TEST(SimulatedBoard, PhantomsTakeTheSameTime) {
  const auto expect_same_time = [](const std::string& text, int ranks) {
    const Expression expression = parse_expression(Collective::allreduce, text);
    Vectors vectors(ranks, {5000, Operation::int_sum});
    std::vector<double> arrivals;
    for (int rank = 0; rank < ranks; ++rank) arrivals.push_back(1e-6 * (rank * 5 % 8));
    const auto exits = [&](bool phantom) {
      Simulator simulator(ranks, node_of_four, {.phantom = phantom, .board_window_bytes = tiny_window});
      // A phantom keeps its addresses: what is in its place needs no copy.
      const auto make = [&](int rank, Endpoint net) {
        return carry_out(net, vectors.args(rank), expression);
      };
      return simulator.run(make, arrivals, expression.lanes()).exits;
    };
    EXPECT_EQ(exits(false), exits(true)) << text;
  };
  for (const std::string& name : algorithms_on_board()) expect_same_time(name, 4);
  for (const std::string& text : hierarchies) expect_same_time(text, 8);
}

TEST(SimulatedBoard, RanksWaitForTheLastOne) {
  Vectors vectors(4, {1000, Operation::int_sum});
  Simulator simulator(4, node_of_four, {.board_window_bytes = tiny_window});
  const std::vector<double> arrivals{0, 0, 1, 0};
  const auto waits = simulator.run([&](int, Endpoint net) { return tree(net, vectors); }, arrivals).waits;
  for (const std::size_t rank : {0u, 1u, 3u}) {
    EXPECT_EQ(waits[rank].cause_of_longest, 2);
    EXPECT_NEAR(waits[rank].longest, 1, 1e-3);
  }
  EXPECT_LT(waits[2].seconds, 1e-3);
}

TEST(SimulatedBoard, NamesTheRanksThatWaitForEver) {
  Vectors vectors(4, {10, Operation::int_sum});
  Simulator simulator(4, node_of_four, {.board_window_bytes = tiny_window});
  try {
    simulator.run([&](int rank, Endpoint net) -> Task {
      if (rank != 2) co_await tree(net, vectors);
    });
    FAIL();
  } catch (const SimulationError& error) {
    EXPECT_STREQ(error.what(), "deadlock: 3 of 4 ranks never end\n  waiting on the board: rank 0, 1, 3");
  }
}

TEST(SimulatedBoard, IsThereIfItIsWanted) {
  const auto expect_board = [](int ranks, std::size_t window_bytes, std::vector<int> size_at_rank) {
    Simulator(ranks, node_of_four, {.board_window_bytes = window_bytes})
        .run([&](int rank, Endpoint net) -> Task {
          const int size = net.board() == nullptr ? 0 : net.board()->size;
          EXPECT_EQ(size, size_at_rank[static_cast<std::size_t>(rank)]);
          EXPECT_EQ(on_node(net).size, size == 0 ? ranks : size);
          co_return;
        });
  };
  expect_board(4, 0, {0, 0, 0, 0});
  expect_board(4, tiny_window, {4, 4, 4, 4});
  expect_board(6, tiny_window, {4, 4, 4, 4, 2, 2});
  EXPECT_THROW(Simulator(4, node_of_four, {.board_window_bytes = 5000}), UsageError);
}

// Every interleaving.

// A call of a collective by all ranks, and the expression that serves it.
struct Step {
  Case what;
  Expression expression;
};

// A few ranks on a board, which make calls one after the other. Each goes on when it is told to. A rank stops
// before each change of a word, where it finds nothing to do and, in fine grain, before each copy or
// reduction. What it loads between two stops it loads at once.
enum class Grain : std::uint8_t { fine, coarse };

class World final : public BoardInSimulation {
 public:
  // Where data are not copied by computations (collectives in slots), a rank can also stop between its look
  // at a word and its look at the data: `at_fetches`.
  World(int ranks, std::vector<Step> steps, Grain grain, bool at_fetches = false)
      : grain_(grain),
        stops_at_fetches_(at_fetches),
        shape_{.ranks = ranks, .window_bytes = tiny_window, .most_short_slots = ranks == 2 ? 4 : 2},
        steps_(std::move(steps)),
        memory_(shape_.total_bytes() / sizeof(Page)),
        members_(static_cast<std::size_t>(ranks)),
        references_(steps_.size()) {
    for (Step& step : steps_) {
      step.what.origin = static_cast<Bits>(checked_.size()) * 7;  // what is left of another call is wrong
      checked_.emplace_back(ranks, step.what);
    }
  }

  void clear() {
    for (Member& member : members_) member.task = {};
    std::ranges::fill(words(), 0);
    before_.assign(words().size(), 0);
    hash_ = 0;
    boards_.clear();
    boards_.reserve(members_.size());  // they are pointed to
    for (CheckedCalls& checked : checked_) checked.clear();
    for (int rank = 0; rank < shape_.ranks; ++rank) {
      Member& self = member(rank);
      self.board = &boards_.emplace_back(memory_.data(), shape_, rank, Patience{});
      self.board->simulation = this;
      self.world = this;
      self.state = State::absent;
      self.ended = 0;
      self.history = self.next_deed = 0;
    }
    for (std::size_t k = 0; k < steps_.size(); ++k) {
      if (!steps_[k].expression.same_bits_every_run()) references_[k].clear();
    }
  }

  [[nodiscard]] std::vector<int> ready() const {
    std::vector<int> ranks;
    for (int rank = 0; rank < shape_.ranks; ++rank) {
      const State state = members_[static_cast<std::size_t>(rank)].state;
      if (state != State::paused && state != State::done) ranks.push_back(rank);
    }
    return ranks;
  }

  void go_on(int rank) {
    Member& self = member(rank);
    const bool touches = self.state == State::touching;
    const std::size_t ended = self.ended;
    switch (self.state) {
      case State::absent:
        self.task = live(self, Endpoint(self, rank, shape_.ranks));
        self.state = State::woken;
        self.task.start();
        break;
      case State::computing:
        self.next_deed = 0;
        perform(self, *self.computation);
        self.computation->waiter.resume();
        break;
      default:
        self.waiter.resume();
    }
    if (self.task.done()) {
      self.task.rethrow_if_failed();
      self.state = State::done;
    }
    if (touches) note_change(self, self.ended == ended);
  }

  // Two states are one if the words are the same, and what every rank has computed, changed and got in its
  // collective, in any order. What it has loaded shows in what it does next, or is kept by its board; the
  // results of earlier collectives are checked.
  [[nodiscard]] std::uint64_t state() const {
    std::uint64_t result = hash_;
    std::size_t ended = steps_.size();
    for (const Member& member : members_) {
      mix(result, member.history);
      mix(result, member.next_deed);
      mix(result, member.ended);
      mix(result, static_cast<std::uint64_t>(member.state));
      for (const Board::RoundNumber* number : {&member.board->sequence, &member.board->round})
        mix(result, number->begun_by_all);
      ended = std::min(ended, member.ended);
    }
    // Where the bits are those of the arrival order, what was the first to get them is part of the state.
    for (; ended < steps_.size(); ++ended) {
      if (steps_[ended].expression.same_bits_every_run()) continue;
      for (const std::vector<Bits>& reference : references_[ended]) {
        for (const Bits bits : reference) mix(result, bits);
      }
    }
    return result;
  }

  [[nodiscard]] const std::string& problem() const { return problem_; }
  [[nodiscard]] bool all_done() const {
    return std::ranges::all_of(members_, [](const Member& member) { return member.state == State::done; });
  }

  void touch(int rank, std::coroutine_handle<> waiter, std::size_t) override {
    stop(rank, waiter, State::touching);
  }
  void exchange(int rank, std::coroutine_handle<> waiter) override { stop(rank, waiter, State::touching); }
  void pause(int rank, std::coroutine_handle<> waiter, Awaited /* it looks itself */) override {
    stop(rank, waiter, State::paused);
  }
  bool charge_fetch(int rank, int owner, const void*, std::size_t bytes,
                    std::coroutine_handle<> waiter) override {
    if (!stops_at_fetches_ || owner == rank || bytes == 0) return false;
    stop(rank, waiter, State::touching);
    return true;
  }

 private:
  enum class State : std::uint8_t { absent, touching, computing, paused, woken, done };
  struct alignas(4096) Page {
    std::byte bytes[4096];
  };
  struct Member final : Transport {
    bool start(Transfer&) override { throw std::logic_error("a message on the board"); }
    bool start(Computation& next) override { return world->compute(*this, next); }
    World* world = nullptr;
    Task task;
    State state = State::absent;
    std::coroutine_handle<> waiter;
    const Computation* computation = nullptr;
    std::size_t ended = 0;      // collectives
    std::uint64_t history = 0;  // in the one it is in: the sum of its deeds
    std::uint64_t next_deed = 0;
  };

  Task live(Member& self, Endpoint net) {
    for (; self.ended < steps_.size(); ++self.ended) {
      CheckedCalls& checked = checked_[self.ended];
      self.history = 0;
      co_await carry_out(net, checked.args(net.rank), steps_[self.ended].expression);
      std::string problem = checked.problem(net.rank, references_[self.ended]);
      if (!problem.empty()) problem_ = std::move(problem);
    }
    self.history = 0;
  }

  [[nodiscard]] Member& member(int rank) { return members_[static_cast<std::size_t>(rank)]; }
  // All but the windows.
  [[nodiscard]] std::span<std::uint64_t> words() {
    return {reinterpret_cast<std::uint64_t*>(memory_.data()),
            shape_.bytes_without_windows() / sizeof(std::uint64_t)};
  }
  static void mix(std::uint64_t& hash, std::uint64_t value) {
    hash = (hash ^ value) * 0x9E3779B97F4A7C15u;
    hash ^= hash >> 32;
  }

  static std::uint64_t hash_of_word(std::size_t index, std::uint64_t value) {
    std::uint64_t hash = index;
    mix(hash, value);
    mix(hash, index);
    return hash;
  }

  void stop(int rank, std::coroutine_handle<> waiter, State state) {
    member(rank).waiter = waiter;
    member(rank).state = state;
  }

  bool compute(Member& self, const Computation& next) {
    if (grain_ == Grain::coarse) {
      perform(self, next);
      return true;
    }
    self.next_deed = deed_of(next);
    self.computation = &next;
    self.state = State::computing;
    for (const Member& other : members_) {
      if (&other == &self || other.state != State::computing) continue;
      if (writes_what_is_used_in(next, *other.computation) ||
          writes_what_is_used_in(*other.computation, next)) {
        problem_ = "data race";  // both can go on now, in either order
      }
    }
    return false;
  }
  static std::uint64_t deed_of(const Computation& computation) {
    std::uint64_t deed = reinterpret_cast<std::uintptr_t>(computation.destination.data);
    for (std::size_t k = 0; k < computation.operand_count; ++k)
      mix(deed, reinterpret_cast<std::uintptr_t>(computation.operands[k]));
    return deed;
  }
  // What it finds is part of the deed: another rank may have been there too early.
  static void perform(Member& self, const Computation& computation) {
    std::uint64_t deed = deed_of(computation);
    for (std::size_t k = 0; k < computation.operand_count; ++k) {
      const auto* found = static_cast<const char*>(computation.operands[k]);
      mix(deed, std::hash<std::string_view>()({found, computation.destination.bytes()}));
    }
    self.history += deed;
    computation.perform();
  }
  static bool writes_what_is_used_in(const Computation& one, const Computation& other) {
    const auto overlap = [&](const void* written, const void* used) {
      const auto* begin = static_cast<const std::byte*>(written);
      const auto* other_begin = static_cast<const std::byte*>(used);
      return std::less<>()(other_begin, begin + one.destination.bytes()) &&
             std::less<>()(begin, other_begin + other.destination.bytes());
    };
    const auto is_used = [&](const void* written) {
      return overlap(written, other.destination.data) ||
             std::any_of(other.operands.begin(),
                         other.operands.begin() + static_cast<int>(other.operand_count),
                         [&](const void* operand) { return overlap(written, operand); });
    };
    return is_used(one.destination.data);
  }

  // The words that a touch changes: what stood there may have been got. A touch that changes nothing takes
  // the rank further, too. Who pauses looks again.
  void note_change(Member& self, bool same_collective) {
    if (same_collective) ++self.history;
    const std::span<const std::uint64_t> now = words();
    for (std::size_t k = 0; k < now.size(); ++k) {
      if (now[k] == before_[k]) continue;
      const std::uint64_t got = hash_of_word(k, std::exchange(before_[k], now[k]));
      hash_ += hash_of_word(k, now[k]) - got;
      if (same_collective) self.history += got;
    }
    for (Member& member : members_) {
      if (&member != &self && member.state == State::paused) member.state = State::woken;
    }
  }

  Grain grain_;
  bool stops_at_fetches_;
  BoardShape shape_;
  std::vector<Step> steps_;
  std::vector<Page> memory_;
  std::vector<std::uint64_t> before_;  // the words after the last touch
  std::uint64_t hash_ = 0;             // of these: a sum
  std::vector<Board> boards_;
  std::vector<Member> members_;
  std::vector<CheckedCalls> checked_;
  std::vector<std::vector<std::vector<Bits>>> references_;  // of every call and rank
  std::string problem_;
};

// Depth first through all states, by running again from the beginning where another choice is to be tried.
class Explorer {
 public:
  Explorer(World& world, std::size_t most_states) : world_(world), most_states_(most_states) {
    world_.clear();
  }

  // The number of schedules from here to the end.
  double visit() {
    const std::uint64_t state = world_.state();
    if (const auto known = schedules_.find(state); known != schedules_.end()) return known->second;
    const std::vector<int> choices = world_.ready();
    double schedules = choices.empty() ? 1 : 0;
    problem_ = choices.empty() && !world_.all_done() ? "deadlock" : world_.problem();
    for (std::size_t k = 0; k < choices.size() && problem_.empty(); ++k) {
      if (k > 0 && schedules_.size() >= most_states_) {
        exhaustive_ = false;
        break;
      }
      if (k > 0) replay();
      world_.go_on(choices[k]);
      path_.push_back(choices[k]);
      schedules += visit();
      if (problem_.empty()) path_.pop_back();
    }
    schedules_.emplace(state, schedules);
    return schedules;
  }
  [[nodiscard]] bool exhaustive() const { return exhaustive_; }

  // Empty, or what is wrong and the ranks that went on, one after the other.
  [[nodiscard]] std::string problem() const {
    if (problem_.empty()) return {};
    std::string text = problem_ + " after";
    for (const int rank : path_) text += " " + std::to_string(rank);
    return text;
  }
  [[nodiscard]] std::size_t states() const { return schedules_.size(); }
  [[nodiscard]] std::size_t runs() const { return runs_; }

 private:
  void replay() {
    ++runs_;
    world_.clear();
    for (const int rank : path_) world_.go_on(rank);
  }

  World& world_;
  std::size_t most_states_;
  std::unordered_map<std::uint64_t, double> schedules_;
  std::vector<int> path_;
  std::size_t runs_ = 1;
  bool exhaustive_ = true;
  std::string problem_;
};

// Two ranks are explored to the end. More of them have too many states for that; how many of these are looked
// at may be said in the environment.
std::size_t most_states(int ranks) {
  static const char* const wanted = std::getenv("BOARD_TEST_STATES");
  if (ranks == 2) return 50'000;
  return wanted != nullptr ? std::stoul(wanted) : 1'000;
}

// In fine grain; if these are too many, in coarse grain, too. Says in `log` what it did.
void explore(int ranks, const std::vector<Step>& steps, std::ostream& log = std::cout) {
  std::string text;
  for (const Step& step : steps) text += step.what.text() + "; ";
  SCOPED_TRACE(text);
  for (const Grain grain : {Grain::fine, Grain::coarse}) {
    World world(ranks, steps, grain);
    Explorer explorer(world, (grain == Grain::fine ? 1 : 2) * most_states(ranks));
    const double schedules = explorer.visit();
    EXPECT_EQ(explorer.problem(), "");
    log << (grain == Grain::fine ? "fine" : "coarse") << " grain, "
        << (explorer.exhaustive() ? "all " : "not all, ") << schedules << " schedules, by "
        << explorer.states() << " states in " << explorer.runs() << " runs\n";
    if (explorer.exhaustive() || testing::Test::HasFailure()) return;
  }
  EXPECT_GT(ranks, 2) << "not all interleavings of two ranks";
}

class EveryInterleaving : public testing::TestWithParam<std::tuple<std::string, int>> {
 protected:
  // Every second one in place.
  static void explore_allreduces(const std::vector<Message>& messages) {
    const auto& [form, ranks] = GetParam();
    std::vector<Step> steps;
    for (const auto& [count, operation] : messages) {
      const bool in_place = steps.size() % 2 != 0;
      steps.push_back({{Collective::allreduce, count, 0, operation, in_place}, expression_of(form)});
    }
    explore(ranks, steps);
  }
};

TEST_P(EveryInterleaving, OfTwoChunks) { explore_allreduces({{1025, Operation::weave}}); }

class EveryInterleavingOfShort : public EveryInterleaving {};

TEST_P(EveryInterleavingOfShort, OneMessage) { explore_allreduces({{3, Operation::weave}}); }
// The third message comes to the half of the board that the first one used.
TEST_P(EveryInterleavingOfShort, ThreeMessages) {
  explore_allreduces({{3, Operation::int_sum}, {3, Operation::weave}, {3, Operation::int_sum}});
}

// Rooted rounds on the board, in which a root may be ahead of the others: an allreduce of three elements,
// made of broadcasts from each rank in turn, one element after the other.
Task broadcast_round(const BoardRound& round) {
  Board::Word& is_there = BoardRound::result(round.step(0));
  if (round.net.rank == round.call.root) {
    co_await round.net.copy(round.chunk_on_board(round.net.rank, 0), round.call.input);
    co_await round.board.announce(is_there, round.mark());
    co_return;
  }
  Patience::Wait wait(round.board.patience);
  while (!round.is_marked(is_there)) co_await round.board.pause(wait);
  co_await round.net.copy(round.call.output, round.chunk_on_board(round.call.root, 0));
}

Algorithm allreduce_on_board(std::string_view name, Task (*run)(Endpoint, Call, const Expression&)) {
  return {.name = name,
          .summary = "",
          .cost = "",
          .serves = {Collective::allreduce},
          .needs = {.board = OnBoard::one_node},
          .source = "",
          .run = run};
}

Task broadcasts_in_turn(Endpoint net, Call call, const Expression&) {
  const Scratch mine = net.scratch(call.input.count, call.input.width);
  const Scratch theirs = net.scratch(1, call.input.width);
  co_await net.copy(mine.vector(), call.input);
  Call broadcast(Collective::bcast);
  for (broadcast.root = 0; broadcast.root < net.size; ++broadcast.root) {
    for (std::size_t k = 0; k < call.input.count; ++k) {
      const Vector element = mine.vector().slice(k, 1);
      co_await run_in_rounds(net, broadcast.with_input_and_output(element, theirs.vector()), 1,
                             broadcast_round);
      const ConstVector got =
          broadcast.root == net.rank ? ConstVector(element) : ConstVector(theirs.vector());
      const Vector result = call.output.slice(k, 1);
      if (broadcast.root == 0) {
        co_await net.copy(result, got);
      } else {
        co_await net.reduce(*call.op, result, result, got);
      }
    }
  }
}

TEST(EveryInterleavingOfRooted, Rounds) {
  const Algorithm algorithm = allreduce_on_board("broadcasts_in_turn", broadcasts_in_turn);
  Expression expression;
  expression.algorithm = &algorithm;
  for (const int ranks : {2, 3}) {
    World world(ranks, {{{Collective::allreduce, 3, 0, Operation::weave}, expression}}, Grain::fine);
    Explorer explorer(world, most_states(ranks));
    explorer.visit();
    EXPECT_EQ(explorer.problem(), "") << ranks << " ranks";
    EXPECT_TRUE(explorer.exhaustive() || ranks > 2);
  }
}

template <Collective collective>
constexpr Immediate butterfly_of_two{.most_ranks = Board::most_ranks,
                                     .most_bytes = ButterflyPass<collective, 1>::most_bytes,
                                     .run = run_spinning<ButterflyPass<collective, 1>>,
                                     .run_in_steps = run_in_steps<ButterflyPass<collective, 1>>};

// Every rank puts its vector on the board; after a barrier each combines all of them.
Task between_barriers(Endpoint net, Call call, const Expression& self) {
  Board& board = *net.board();
  const auto on_board = [&](int rank) {
    return Vector{board.window(0, rank), call.input.count, call.input.width};
  };
  co_await net.copy(on_board(net.rank), call.input);
  co_await carry_out(net, {Collective::barrier}, self.parts[0]);
  co_await net.copy(call.output, on_board(0));
  for (int rank = 1; rank < net.size; ++rank)
    co_await net.reduce(*call.op, call.output, call.output, on_board(rank));
  co_await carry_out(net, {Collective::barrier}, self.parts[0]);
}

TEST(EveryInterleavingOfBarriers, LetsNobodyGoTooEarly) {
  const Algorithm algorithm = allreduce_on_board("between_barriers", between_barriers);
  const Algorithm& concurrent_ranks = *parse_expression(Collective::barrier, "arrival_counter").algorithm;
  Algorithm in_butterfly = concurrent_ranks;
  in_butterfly.immediate = &butterfly_of_two<Collective::barrier>;
  Algorithm in_tree = concurrent_ranks;
  in_tree.immediate = &immediate_tree<TreeForm<Collective::barrier, 1>>;
  for (const Algorithm* form :
       std::initializer_list<const Algorithm*>{&concurrent_ranks, &in_tree, &in_butterfly}) {
    for (const int ranks : {2, 3}) {
      Expression expression;
      expression.algorithm = &algorithm;
      expression.parts.emplace_back().algorithm = form;
      std::vector<Step> steps;
      for (const auto operation : {Operation::weave, Operation::int_sum, Operation::weave})
        steps.push_back({{Collective::allreduce, 1, 0, operation, steps.size() == 1}, expression});
      World world(ranks, steps, Grain::fine);
      Explorer explorer(world, most_states(ranks));
      explorer.visit();
      EXPECT_EQ(explorer.problem(), "") << ranks << " ranks";
      EXPECT_TRUE(explorer.exhaustive() || ranks > 2);
    }
  }
}

// Sequences of calls of any collectives. The slots of two ranks are swapped at each call, and slots and
// windows are used again two calls later.

// The long form of an alltoallv, which reads the lengths only when the other ranks may have gone on.
Task late_alltoallv(Endpoint net, Call call, const Expression&) {
  co_await net.board()->touch();
  const Expression arrival_direct = parse_expression(Collective::alltoallv, "arrival_direct");
  co_await arrival_direct.algorithm->run(net, call, arrival_direct);
}

Expression on_board(Collective collective) {
  Expression expression = expression_on_board(collective);
  if (collective == Collective::alltoallv) {
    static const Algorithm late = [&] {
      Algorithm algorithm = *expression.algorithm;
      algorithm.run = late_alltoallv;
      return algorithm;
    }();
    expression.algorithm = &late;
  }
  return expression;
}

// A step with a short vector.
Step in_slots(const Case& what) { return {what, on_board(what.collective)}; }
// Through windows, however short it is. A call of unknown length must be too long for its slots.
Step through_windows(const Case& what) {
  const Expression expression = on_board(what.collective);
  return {what, has_unknown_length(what.collective) ? expression : without_immediate(expression)};
}

// A rank that waits for nobody is almost as many short calls ahead as it has slots.
TEST(ShortSlots, LetARankGoAhead) {
  for (const Collective collective : {Collective::bcast, Collective::reduce, Collective::gather,
                                      Collective::scatter, Collective::gatherv, Collective::scatterv}) {
    const Step step = in_slots({collective, 2});
    const bool root_waits = roles_of(collective).root_takes;
    std::vector<double> arrivals(4, root_waits ? 0 : 1);
    arrivals[0] = root_waits ? 1 : 0;
    const auto first_exit = [&](int calls) {
      CheckedCalls checked(4, step.what);
      Simulator simulator(4, node_of_four, {.board_window_bytes = tiny_window});
      const auto make = [&](int, Endpoint net) -> Task {
        for (int call = 0; call < calls; ++call)
          co_await carry_out(net, checked.args(net.rank), step.expression);
      };
      return std::ranges::min(simulator.run(make, arrivals).exits);
    };
    constexpr int slots = BoardShape{}.most_short_slots;
    EXPECT_LT(first_exit(slots - 1), 1e-3) << facts_of(collective).name;
    EXPECT_GT(first_exit(slots), 1) << facts_of(collective).name;
  }
}

class EveryInterleavingOfCalls : public testing::TestWithParam<std::tuple<Collective, int>> {
 protected:
  // All sequences of roots; every fifth of them where one takes seconds. Every second call is in place, if it
  // can be.
  static void explore_calls(std::size_t calls, std::size_t count, Step (*step)(const Case&)) {
    const auto& [collective, ranks] = GetParam();
    const std::vector<int> roots = roots_of(collective, ranks);
    std::size_t sequences = 1;
    for (std::size_t k = 0; k < calls; ++k) sequences *= roots.size();
    const bool takes_seconds =
        (collective == Collective::reduce || collectives_with_lists_at_root.contain(collective)) &&
        ranks > 2 && step == through_windows;
    for (std::size_t sequence = 0; sequence < sequences; sequence += takes_seconds && calls > 1 ? 5 : 1) {
      std::vector<Step> steps;
      for (std::size_t rest = sequence; steps.size() < calls; rest /= roots.size()) {
        const bool in_place = steps.size() % 2 != 0;
        const Operation operation = in_place ? Operation::weave : Operation::int_sum;
        steps.push_back(step({collective, count, roots[rest % roots.size()], operation, in_place}));
      }
      explore(ranks, steps);
    }
  }
  // The shortest that goes through windows.
  static std::size_t short_count() {
    const Collective collective = std::get<0>(GetParam());
    return collectives_with_lists_at_root.contain(collective) ? 1025
           : collective == Collective::alltoallv              ? 600
                                                              : 3;
  }
};

TEST_P(EveryInterleavingOfCalls, OneInSlots) { explore_calls(1, 3, in_slots); }
TEST_P(EveryInterleavingOfCalls, ThreeInSlots) { explore_calls(3, 3, in_slots); }
TEST_P(EveryInterleavingOfCalls, OneOfTwoChunks) { explore_calls(1, 1025, through_windows); }
TEST_P(EveryInterleavingOfCalls, TwoOfTwoChunks) { explore_calls(2, 1025, through_windows); }
TEST_P(EveryInterleavingOfCalls, ThreeThroughWindows) { explore_calls(3, short_count(), through_windows); }

// More of what two ranks can do.
class EveryInterleavingOfCallsOfTwo : public EveryInterleavingOfCalls {};

TEST_P(EveryInterleavingOfCallsOfTwo, FiveInSlots) { explore_calls(5, 3, in_slots); }
TEST_P(EveryInterleavingOfCallsOfTwo, OneOfManyRounds) { explore_calls(1, 5000, through_windows); }
// What comes must not overwrite what has not gone yet.
TEST_P(EveryInterleavingOfCallsOfTwo, OneOfManyRoundsInPlace) {
  const auto& [collective, ranks] = GetParam();
  explore(ranks, {through_windows({collective, 5000, 0, Operation::weave, true})});
}

class EveryInterleavingOfMixedCalls : public testing::TestWithParam<int> {};

// A rank that gets nothing from another one in an alltoallv may leave before that one has read the lengths in
// the slots.
TEST_P(EveryInterleavingOfMixedCalls, AlltoallvBetweenOthers) {
  for (const std::size_t count : {3, 600}) {  // in slots and through windows
    for (const bool one_way : {false, true}) {
      const Step alltoallv =
          in_slots({.collective = Collective::alltoallv, .count = count, .one_way = one_way});
      explore(GetParam(),
              {in_slots({Collective::bcast, 3, 1}), alltoallv, in_slots({Collective::allreduce, 3})});
      for (const int root : {0, 1}) {
        explore(GetParam(), {in_slots({Collective::bcast, 3, 0}), alltoallv,
                             in_slots({Collective::bcast, 3, root}), in_slots({Collective::reduce, 3, 0})});
        explore(GetParam(), {through_windows({Collective::bcast, 3, root}), alltoallv,
                             through_windows({Collective::gather, 3, 0})});
      }
      explore(GetParam(), {alltoallv, alltoallv, alltoallv});
    }
  }
}

TEST_P(EveryInterleavingOfMixedCalls, RootedBeforeOnesInWhichAllMeet) {
  for (const auto step : {in_slots, through_windows}) {
    explore(GetParam(), {step({Collective::reduce, 3, 1}), step({Collective::bcast, 3, 0}),
                         step({Collective::allgather, 3})});
    explore(GetParam(), {step({Collective::allgather, 3}), step({Collective::scatter, 3, 0}),
                         step({Collective::allreduce, 3}), step({Collective::gather, 3, 1})});
  }
}

// A rank may have a block that needs a window while the others have none, and go ahead.
TEST_P(EveryInterleavingOfMixedCalls, ListsAtTheRootBetweenOthers) {
  for (const Collective collective : {Collective::gatherv, Collective::scatterv}) {
    for (const std::size_t count : {3, 300, 1025}) {  // in short slots, inline slots, and windows
      for (const int root : {0, 1}) {
        const Step lists = in_slots({collective, count, root});
        if (GetParam() > 2 && count > 3 && root > 0) continue;  // takes minutes
        explore(GetParam(), {lists, in_slots({Collective::gatherv, 3, 0}), lists});
        explore(GetParam(), {through_windows({Collective::bcast, 3, root}), lists,
                             through_windows({Collective::gather, 3, 0})});
        explore(GetParam(), {lists, through_windows({Collective::allreduce, 3}),
                             in_slots({Collective::scatterv, count, 1 - root})});
      }
    }
  }
}

TEST_P(EveryInterleavingOfMixedCalls, GatherAndScatter) {
  for (const auto step : {in_slots, through_windows}) {
    for (const int root : {0, 1})
      explore(GetParam(), {step({Collective::gather, 3, 0}), step({Collective::scatter, 3, root})});
  }
}

// A rank that is ahead in short slots waits before an inline slot, and before a collective in which all meet.
TEST_P(EveryInterleavingOfMixedCalls, ShortSlotsAndInlineSlotsInTurn) {
  constexpr std::size_t inline_count = BoardShape::short_bytes / sizeof(Bits) + 1;
  for (const Collective collective : {Collective::bcast, Collective::reduce, Collective::gather,
                                      Collective::scatter, Collective::gatherv, Collective::scatterv}) {
    const Step one = in_slots({collective, 3, 0});
    const Step other = in_slots({collective, 3, 1});
    const Step longer = in_slots({collective, inline_count, 0});
    const Step all_meet = in_slots({Collective::allgather, 3});
    explore(GetParam(), {longer, longer, other, longer});
    explore(GetParam(), {one, longer, one, one});
    explore(GetParam(), {longer, one, one, longer});
    explore(GetParam(), {one, all_meet, one, one});
    if (GetParam() > 2) continue;
    explore(2, {one, longer, one, one, other, one, one});
    explore(2, {one, one, all_meet, one, one, one, one});
    explore(2, {longer, one, one, one, longer, one, longer});
  }
}

// Slots and windows have numbers of their own.
TEST_P(EveryInterleavingOfMixedCalls, ShortAndLongInTurn) {
  explore(GetParam(), {through_windows({Collective::bcast, 3, 0}), in_slots({Collective::reduce, 3, 1}),
                       through_windows({Collective::alltoall, 3}), in_slots({Collective::scatter, 3, 0})});
}

// Every collective after every other one, on two ranks, with the same root or another one.
class EveryInterleavingOfThreeCalls : public testing::TestWithParam<Collective> {
 protected:
  static void explore_all(std::size_t count_of_unknown_length, Step (*step)(const Case&)) {
    const auto call = [&](Collective collective, int root) {
      return step({.collective = collective,
                   .count = has_unknown_length(collective) ? count_of_unknown_length : 3,
                   .root = root,
                   .one_way = collective == Collective::alltoallv});
    };
    std::ostream silent(nullptr);  // there are hundreds
    for (const Collective second : checked_collectives) {
      for (const Collective third : checked_collectives) {
        for (const int root : {0, 1}) {
          for (const int last_root : {0, 1})
            explore(2, {call(GetParam(), 0), call(second, root), call(third, last_root)}, silent);
        }
      }
    }
  }
};

TEST_P(EveryInterleavingOfThreeCalls, InSlots) { explore_all(3, in_slots); }
TEST_P(EveryInterleavingOfThreeCalls, ThroughWindows) { explore_all(1025, through_windows); }

// Calls for many ranks, made by a few: a tree and a butterfly of groups of two, and Bruck's steps.

const Immediate* for_many(Collective collective) {
  switch (collective) {
    case Collective::allreduce:
      return &immediate_tree<TreeForm<Collective::allreduce, 1>>;
    case Collective::reduce:
      return &immediate_tree<TreeForm<Collective::reduce, 1>>;
    case Collective::bcast:
      return &immediate_tree<TreeForm<Collective::bcast, 1>>;
    case Collective::gather:
      return &immediate_tree<TreeForm<Collective::gather, 1>>;
    case Collective::scatter:
      return &immediate_tree<TreeForm<Collective::scatter, 1>>;
    default:
      return expression_on_board(collective).algorithm->immediate->for_more_ranks;
  }
}

Expression as_for_many(Collective collective) {
  static std::map<Collective, Algorithm> algorithms;
  const auto [place, is_new] = algorithms.try_emplace(collective, allreduce_on_board("for_many", nullptr));
  place->second.immediate = for_many(collective);
  Expression expression;
  expression.algorithm = &place->second;
  return expression;
}

Step among_many(const Case& what) { return {what, as_for_many(what.collective)}; }

Step in_butterfly(const Case& what) {
  static const Algorithm algorithm = [] {
    Algorithm made = allreduce_on_board("in_butterfly", nullptr);
    made.immediate = &butterfly_of_two<Collective::allreduce>;
    return made;
  }();
  Expression expression;
  expression.algorithm = &algorithm;
  return {what, expression};
}

class EveryInterleavingAmongMany : public testing::TestWithParam<int> {
 protected:
  void TearDown() override {
    std::cout << states_ << " states, " << sequences_ - incomplete_ << " of " << sequences_
              << " sequences of calls in every interleaving\n";
  }
  void explore_all_of(const std::vector<Step>& steps) {
    std::string text;
    for (const Step& step : steps) text += step.what.text() + "; ";
    World world(GetParam(), steps, Grain::fine, true);
    Explorer explorer(world, most_states(GetParam()));
    explorer.visit();
    ASSERT_EQ(explorer.problem(), "") << text;
    states_ += explorer.states();
    ++sequences_;
    incomplete_ += explorer.exhaustive() ? 0 : 1;
  }
  std::size_t states_ = 0;
  std::size_t sequences_ = 0;
  std::size_t incomplete_ = 0;
};

// In lines and in slots.
TEST_P(EveryInterleavingAmongMany, OneCall) {
  for (const Collective collective :
       {Collective::allreduce, Collective::reduce, Collective::bcast, Collective::gather, Collective::scatter,
        Collective::allgather, Collective::scan, Collective::exscan}) {
    for (const std::size_t count : {3, 20}) {
      for (const int root : roots_of(collective, GetParam()))
        explore_all_of({among_many({collective, count, root, Operation::weave, root % 2 != 0})});
    }
  }
  for (const std::size_t count : {3, 20})
    explore_all_of({in_butterfly({Collective::allreduce, count, 0, Operation::weave, count == 3})});
}

// The third call comes to the half of the board that the first one used, and the fifth, too. Among them are
// calls in which any rank reads any slot. Of all sequences one in `every` is tried.
class EveryInterleavingOfCallsAmongMany : public EveryInterleavingAmongMany {
 protected:
  void explore_sequences(std::size_t length, std::size_t every) {
    const int ranks = GetParam();
    std::vector<Step> calls;
    for (const Collective collective :
         {Collective::bcast, Collective::reduce, Collective::gather, Collective::scatter,
          Collective::allreduce, Collective::allgather, Collective::scan, Collective::exscan}) {
      const std::size_t count = collective == Collective::bcast ? 20 : 3;
      for (const int root : roots_of(collective, ranks))
        calls.push_back(among_many({collective, count, root}));
    }
    calls.push_back(in_slots({.collective = Collective::alltoallv, .count = 3, .one_way = true}));
    calls.push_back(in_slots({Collective::bcast, 3, 1}));
    calls.push_back(in_slots({Collective::reduce, 3, 1}));
    calls.push_back(in_butterfly({Collective::allreduce, 3}));
    std::size_t sequences = 1;
    for (std::size_t k = 0; k < length; ++k) sequences *= calls.size();
    for (std::size_t k = 0; k < sequences; k += every) {
      std::vector<Step> steps;
      for (std::size_t rest = k; steps.size() < length; rest /= calls.size())
        steps.push_back(calls[rest % calls.size()]);
      explore_all_of(steps);
    }
  }
};

// Long ones: passed on from window to window.

Step relayed(const Case& what) {
  static const Algorithm bcast = allreduce_on_board("relayed", relayed_bcast);
  Expression expression;
  expression.algorithm = &bcast;
  return {what, expression};
}

Task scatter_one_block(Endpoint net, Call call, const Expression&) {
  const std::size_t count = call.output.count;
  const auto begin =
      static_cast<std::ptrdiff_t>(call.input_blocks.begin_of_block(call.input.count, net.rank, net.size));
  const BlockList own{&count, &begin};
  co_await allreduce_algorithms::scatter_by_shares(net, call, own, 1);
}

// A reduce_scatter whose vector is too short for windows by itself.
Expression scattered_by_shares() {
  static const Algorithm algorithm = [] {
    Algorithm made = *parse_expression(Collective::reduce_scatter, "arrival_shares").algorithm;
    made.run = scatter_one_block;
    return made;
  }();
  Expression expression;
  expression.algorithm = &algorithm;
  return expression;
}

class EveryInterleavingOfRelayed : public EveryInterleavingAmongMany {};

TEST_P(EveryInterleavingOfRelayed, OfTwoChunks) {
  for (int root = 0; root < GetParam(); ++root) explore_all_of({relayed({Collective::bcast, 1025, root})});
}

// The third round, and so the third call, comes to the windows that the first one used.
TEST_P(EveryInterleavingOfRelayed, CallsInTurn) {
  for (const int middle : {0, 1}) {
    const auto bcast = [](int root) { return relayed({Collective::bcast, 3, root}); };
    explore_all_of({bcast(0), bcast(middle), bcast(0)});
  }
  std::vector<Step> calls{
      {{Collective::allreduce, 3, 0, Operation::weave}, expression_of("arrival_shares_in_chunks")},
      {{Collective::reduce_scatter, 3, 0, Operation::weave}, scattered_by_shares()},
      through_windows({Collective::reduce, 3, 1}),
      through_windows({Collective::gather, 3, 0})};
  for (int root = 0; root < GetParam(); ++root) calls.push_back(relayed({Collective::bcast, 3, root}));
  const std::size_t n = calls.size();
  for (std::size_t k = 0; k < n * n * n; k += GetParam() == 3 ? 79 : 1999)
    explore_all_of({calls[k % n], calls[k / n % n], calls[k / n / n]});
}

TEST_P(EveryInterleavingOfCallsAmongMany, Three) { explore_sequences(3, GetParam() == 3 ? 157 : 2111); }
TEST_P(EveryInterleavingOfCallsAmongMany, Five) {
  explore_sequences(5, GetParam() == 3 ? 90'001 : 7'000'003);
}

std::string name_of_calls(const testing::TestParamInfo<std::tuple<Collective, int>>& info) {
  return std::string(name_of(std::get<0>(info.param))) + "_on_" + std::to_string(std::get<1>(info.param));
}

// EveryInterleaving has those of allreduce.
std::vector<Collective> all_but_allreduce() {
  std::vector<Collective> all(std::begin(checked_collectives), std::end(checked_collectives));
  std::erase(all, Collective::allreduce);
  return all;
}
const auto served_directly = testing::ValuesIn(all_but_allreduce());

INSTANTIATE_TEST_SUITE_P(Board, EveryInterleavingOfCalls,
                         testing::Combine(served_directly, testing::Values(2, 3)), name_of_calls);
INSTANTIATE_TEST_SUITE_P(Board, EveryInterleavingOfCallsOfTwo,
                         testing::Combine(served_directly, testing::Values(2)), name_of_calls);
INSTANTIATE_TEST_SUITE_P(Board, EveryInterleavingOfMixedCalls, testing::Values(2, 3),
                         testing::PrintToStringParamName());
INSTANTIATE_TEST_SUITE_P(Board, EveryInterleavingOfThreeCalls, testing::ValuesIn(checked_collectives),
                         [](const auto& info) { return std::string(name_of(info.param)); });

INSTANTIATE_TEST_SUITE_P(Board, EveryInterleavingAmongMany, testing::Values(3, 4),
                         testing::PrintToStringParamName());

INSTANTIATE_TEST_SUITE_P(Board, EveryInterleavingOfRelayed, testing::Values(3, 4),
                         testing::PrintToStringParamName());
INSTANTIATE_TEST_SUITE_P(Board, EveryInterleavingOfCallsAmongMany, testing::Values(3, 4),
                         testing::PrintToStringParamName());

INSTANTIATE_TEST_SUITE_P(Board, EveryInterleaving,
                         testing::Combine(testing::ValuesIn(algorithms_on_board()), testing::Values(2, 3, 4)),
                         readable);
INSTANTIATE_TEST_SUITE_P(Board, EveryInterleavingOfShort,
                         testing::Combine(testing::ValuesIn(forms_on_board()), testing::Values(2, 3, 4)),
                         readable);

}  // namespace
}  // namespace offbeat
