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
#include <functional>
#include <iostream>
#include <numeric>
#include <optional>
#include <random>
#include <span>
#include <stdexcept>
#include <string>
#include <tuple>
#include <unordered_map>
#include <utility>
#include <vector>

#include "base/error.hpp"
#include "collectives/allreduce/board_round.hpp"
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

std::vector<std::string> forms_on_board() {
  std::vector<std::string> forms;
  for (const std::string& name : algorithms_on_board()) {
    forms.push_back(name);
    if (parse_expression(Collective::allreduce, name).algorithm->immediate != nullptr)
      forms.push_back(name + std::string(in_chunks));
  }
  return forms;
}

// `chunked` holds the algorithm of the expression if that is not a registered one.
Expression expression_of(const std::string& form, std::optional<Algorithm>& chunked) {
  if (!form.ends_with(in_chunks)) return parse_expression(Collective::allreduce, form);
  Expression expression =
      parse_expression(Collective::allreduce, form.substr(0, form.size() - in_chunks.size()));
  chunked = *expression.algorithm;
  chunked->immediate = nullptr;
  expression.algorithm = &*chunked;
  return expression;
}

const std::vector<std::string> hierarchies = {
    "hierarchy(arrival_tree, recursive_doubling)",
    "hierarchy(arrival_tree, pipeline(2, ring))",
    "hierarchy(arrival_leader, ring)",
    "hierarchy(arrival_chain, rabenseifner)",
};

// Ways to place ranks on nodes.
const std::vector<std::function<int(int rank)>> placements = {
    [](int) { return 0; },
    [](int rank) { return rank / 3; },
    [](int rank) { return rank % 3; },
    [](int rank) { return rank * rank % 7; },
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
        if (!expression.every_run()) references[k].clear();
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

constexpr Network node_of_four{.gamma = 0x1p-30, .copy = 0x1p-31, .line = 0x1p-23, .ranks_per_node = 4};

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
      const auto make = [&](int rank, Endpoint net) {
        Call args = vectors.args(rank);
        if (phantom) args.input.data = args.output.data = nullptr;
        return carry_out(net, args, expression);
      };
      return simulator.run(make, arrivals, expression.lanes()).exits;
    };
    EXPECT_EQ(exits(false), exits(true)) << text;
  };
  for (const std::string& name : algorithms_on_board()) expect_same_time(name, 4);
  for (const std::string& text : hierarchies) expect_same_time(text, 8);
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

// A few ranks on a board, each of which goes on when it is told to. A rank stops before each change of a
// word, where it finds nothing to do and, in fine grain, before each copy or reduction. What it loads between
// two stops it loads at once.
enum class Grain : std::uint8_t { fine, coarse };

class World final : public BoardInSimulation {
 public:
  World(int ranks, std::vector<Message> messages, const Expression& expression, Grain grain)
      : grain_(grain),
        shape_{ranks, tiny_window},
        expression_(expression),
        memory_(shape_.total_bytes() / sizeof(Page)),
        members_(static_cast<std::size_t>(ranks)) {
    for (const Message message : messages) vectors_.emplace_back(ranks, message);
    references_.resize(messages.size());
  }

  void clear() {
    for (Member& member : members_) member.task = {};
    std::ranges::fill(words(), 0);
    before_.assign(words().size(), 0);
    boards_.clear();
    boards_.reserve(members_.size());  // they are pointed to
    bool in_place = false;
    for (Vectors& vectors : vectors_) vectors.clear(std::exchange(in_place, !in_place));
    for (int rank = 0; rank < shape_.ranks; ++rank) {
      Member& self = member(rank);
      self.board = &boards_.emplace_back(memory_.data(), shape_, rank, Patience{});
      self.board->simulation = this;
      self.world = this;
      self.state = State::absent;
      self.ended = 0;
      self.history = self.next_deed = 0;
    }
    if (!expression_.every_run()) std::ranges::fill(references_, std::vector<Bits>());
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
        self.computation->perform();
        self.history += std::exchange(self.next_deed, 0);
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
    std::uint64_t result = 0;
    std::size_t ended = vectors_.size();
    for (const Member& member : members_) {
      mix(result, member.history);
      mix(result, member.next_deed);
      mix(result, member.ended);
      mix(result, static_cast<std::uint64_t>(member.state));
      mix(result, member.board->came_last ? 1 : 0);
      ended = std::min(ended, member.ended);
    }
    for (const std::uint64_t word : before_) mix(result, word);
    // Where the bits are those of the arrival order, what was the first to get them is part of the state.
    for (; !expression_.every_run() && ended < references_.size(); ++ended) {
      for (const Bits bits : references_[ended]) mix(result, bits);
    }
    return result;
  }

  [[nodiscard]] const std::string& problem() const { return problem_; }
  [[nodiscard]] bool all_done() const {
    return std::ranges::all_of(members_, [](const Member& member) { return member.state == State::done; });
  }

  void touch(int rank, std::coroutine_handle<> waiter) override { stop(rank, waiter, State::touching); }
  void pause(int rank, std::coroutine_handle<> waiter) override { stop(rank, waiter, State::paused); }

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
    for (; self.ended < vectors_.size(); ++self.ended) {
      Vectors& vectors = vectors_[self.ended];
      self.history = 0;
      co_await carry_out(net, vectors.args(net.rank), expression_);
      std::string problem = vectors.problem(static_cast<std::size_t>(net.rank), references_[self.ended]);
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

  void stop(int rank, std::coroutine_handle<> waiter, State state) {
    member(rank).waiter = waiter;
    member(rank).state = state;
  }

  bool compute(Member& self, const Computation& next) {
    std::uint64_t deed = reinterpret_cast<std::uintptr_t>(next.destination.data);
    for (std::size_t k = 0; k < next.operand_count; ++k)
      mix(deed, reinterpret_cast<std::uintptr_t>(next.operands[k]));
    mix(deed, next.used_up);
    if (grain_ == Grain::coarse) {
      self.history += deed;
      next.perform();
      return true;
    }
    self.next_deed = deed;
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
    bool used = is_used(one.destination.data);
    for (std::size_t k = 0; k < one.operand_count; ++k) {
      used = used || ((one.used_up >> k & 1) != 0 && is_used(one.operands[k]));
    }
    return used;
  }

  // The words that a touch changes: what stood there may have been got. Who pauses looks again.
  void note_change(Member& self, bool same_collective) {
    const std::span<const std::uint64_t> now = words();
    for (std::size_t k = 0; k < now.size(); ++k) {
      if (now[k] == before_[k]) continue;
      std::uint64_t deed = k;
      mix(deed, std::exchange(before_[k], now[k]));
      if (same_collective) self.history += deed;
    }
    for (Member& member : members_) {
      if (&member != &self && member.state == State::paused) member.state = State::woken;
    }
  }

  Grain grain_;
  BoardShape shape_;
  const Expression& expression_;
  std::vector<Page> memory_;
  std::vector<std::uint64_t> before_;  // the words after the last step
  std::vector<Board> boards_;
  std::vector<Member> members_;
  std::vector<Vectors> vectors_;
  std::vector<std::vector<Bits>> references_;
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

// So many states in fine grain take some seconds, also with AddressSanitizer, which takes ten times as long.
#if defined(__SANITIZE_ADDRESS__)
constexpr std::size_t most_states = 5'000;
#else
constexpr std::size_t most_states = 50'000;
#endif

class EveryInterleaving : public testing::TestWithParam<std::tuple<std::string, int>> {
 protected:
  // In fine grain; if these are too many, in coarse grain, too. Says what it did.
  static void explore(const std::vector<Message>& messages) {
    for (const Grain grain : {Grain::fine, Grain::coarse}) {
      const auto& [name, ranks] = GetParam();
      std::optional<Algorithm> chunked;
      const Expression expression = expression_of(name, chunked);
      World world(ranks, messages, expression, grain);
      Explorer explorer(world, grain == Grain::fine ? most_states : 5 * most_states);
      const double schedules = explorer.visit();
      EXPECT_EQ(explorer.problem(), "");
      std::cout << (grain == Grain::fine ? "fine" : "coarse") << " grain, "
                << (explorer.exhaustive() ? "all " : "not all, ") << schedules << " schedules, by "
                << explorer.states() << " states in " << explorer.runs() << " runs\n";
      if (explorer.exhaustive() || HasFailure()) return;
    }
  }
};

TEST_P(EveryInterleaving, OfTwoChunks) { explore({{1025, Operation::weave}}); }

class EveryInterleavingOfShort : public EveryInterleaving {};

TEST_P(EveryInterleavingOfShort, OneMessage) { explore({{3, Operation::float_sum}}); }
// The third message comes to the half of the board that the first one used.
TEST_P(EveryInterleavingOfShort, ThreeMessages) {
  explore({{3, Operation::int_sum}, {3, Operation::weave}, {3, Operation::int_sum}});
}

// Rooted rounds on the board, in which a root may be ahead of the others: an allreduce of three elements,
// made of broadcasts from each rank in turn, one element after the other.
Task broadcast_round(const BoardRound& round) {
  Board::Word& is_there = BoardRound::result(round.step(0));
  if (round.net.rank == round.call.root) {
    co_await round.net.copy(round.on_board(round.net.rank, 0), round.call.input);
    co_await round.board.announce(is_there, round.mark());
    co_return;
  }
  Patience::Wait wait(round.board.patience);
  while (!round.is_marked(is_there)) co_await round.board.pause(wait);
  co_await round.net.copy(round.call.output, round.on_board(round.call.root, 0));
}

Task broadcasts_in_turn(Endpoint net, Call call, const Expression&) {
  const Scratch mine = net.scratch(call.input.count, call.input.width);
  const Scratch theirs = net.scratch(1, call.input.width);
  co_await net.copy(mine.vector(), call.input);
  Call broadcast{.collective = Collective::bcast};
  for (broadcast.root = 0; broadcast.root < net.size; ++broadcast.root) {
    for (std::size_t k = 0; k < call.input.count; ++k) {
      const Vector element = mine.vector().slice(k, 1);
      co_await in_rounds(net, broadcast.with(element, theirs.vector()), 1, broadcast_round);
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
  const Algorithm algorithm{.name = "broadcasts_in_turn",
                            .summary = "",
                            .cost = "",
                            .serves = {Collective::allreduce},
                            .needs = {.board = OnBoard::one_node},
                            .source = "",
                            .run = broadcasts_in_turn};
  Expression expression;
  expression.algorithm = &algorithm;
  for (const int ranks : {2, 3}) {
    World world(ranks, {{3, Operation::weave}}, expression, Grain::fine);
    Explorer explorer(world, most_states);
    explorer.visit();
    EXPECT_EQ(explorer.problem(), "") << ranks << " ranks";
    EXPECT_TRUE(explorer.exhaustive() || ranks > 2);
  }
}

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
  const Algorithm algorithm{.name = "between_barriers",
                            .summary = "",
                            .cost = "",
                            .serves = {Collective::allreduce},
                            .needs = {.board = OnBoard::one_node},
                            .source = "",
                            .run = between_barriers};
  const Algorithm& at_once = *parse_expression(Collective::barrier, "arrival_counter").algorithm;
  Algorithm in_words = at_once;
  in_words.immediate = nullptr;
  for (const Algorithm* form : std::initializer_list<const Algorithm*>{&at_once, &in_words}) {
    for (const int ranks : {2, 3}) {
      Expression expression;
      expression.algorithm = &algorithm;
      expression.parts.emplace_back().algorithm = form;
      World world(ranks, {{1, Operation::weave}, {1, Operation::int_sum}, {1, Operation::weave}}, expression,
                  Grain::fine);
      Explorer explorer(world, most_states);
      explorer.visit();
      EXPECT_EQ(explorer.problem(), "") << ranks << " ranks";
      EXPECT_TRUE(explorer.exhaustive() || ranks > 2);
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Board, EveryInterleaving,
                         testing::Combine(testing::ValuesIn(algorithms_on_board()), testing::Values(2, 3, 4)),
                         readable);
INSTANTIATE_TEST_SUITE_P(Board, EveryInterleavingOfShort,
                         testing::Combine(testing::ValuesIn(forms_on_board()), testing::Values(2, 3, 4)),
                         readable);

}  // namespace
}  // namespace offbeat
