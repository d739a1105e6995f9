// SPDX-License-Identifier: BSD-3-Clause
// Calls in slots: RoundBeginning (collectives/board/round_beginning.hpp) with WaitForAllSlots and InSlots,
// which also uses short slots (immediate.hpp, arrival_direct/in_slots.hpp); with ReadersBefore (readers.hpp),
// TreePass and TreeForm (immediate_tree.hpp, tree_form.hpp), ButterflyPass (immediate_butterfly.hpp), and
// BruckInSlots.
#include "modelled.hpp"
//
#include "collectives/board/arrival_direct/block_exchange.cpp"
#include "collectives/board/arrival_direct/in_slots.hpp"
#include "collectives/board/bruck_in_slots.hpp"
#include "collectives/board/immediate.hpp"
#include "collectives/board/immediate_butterfly.hpp"
#include "collectives/board/tree_form.hpp"
#include "node/board.cpp"

namespace offbeat {
namespace {

using Value = std::uint64_t;
constexpr int calls = 4;

// Each rank makes the same calls, one after the other, of kinds and with roots that differ between schedules.
// A call gives each rank what no other call does.
class Calls : public model::Protocol {
 public:
  explicit Calls(const BoardShape& shape)
      : Protocol({.bytes = shape.total_bytes(), .atomics = 64}), shape_(shape) {}

  void run(int rank) override {
    Board board(memory(), shape_, rank, {});
    for (std::size_t call = 0; call < calls; ++call) make_call(board, call);
  }

 protected:
  [[nodiscard]] virtual Collective kind_of(std::size_t call) const = 0;
  virtual void make_call(Board& board, std::size_t call) = 0;

  // Runs one call of a collective without an operation and requires the right result.
  template <class Text>
  void run_text(Board& board, Collective collective, std::size_t index, int root) const {
    const auto size = static_cast<std::size_t>(board.size);
    const auto own = static_cast<std::size_t>(board.rank);
    const Roles roles = roles_of(collective);
    const std::size_t given = roles.is_personalised ? size : 1;
    const std::size_t taken = roles.root_gives ? 1 : size;
    std::array<Value, 4> input{};
    std::array<Value, 4> output{};
    for (std::size_t k = 0; k < given; ++k) input[k] = value(index, own, k);
    const bool is_bcast = collective == Collective::bcast;
    if (is_bcast && board.rank == root) output = input;
    const auto* const from = reinterpret_cast<const std::byte*>(is_bcast ? output.data() : input.data());
    const bool moves = moves_data(collective);
    const Call call{collective,
                    {from, moves ? given : 0, sizeof(Value)},
                    {reinterpret_cast<std::byte*>(output.data()), moves ? taken : 0, sizeof(Value)},
                    nullptr,
                    root};
    board.sequence.next(collective, Text::all_meet);
    typename Text::Operands operands;
    Text text(board, call, operands);
    const model::Waits waits;
    static_cast<void>(text.advance(waits));
    if (!moves || !roles.takes(board.rank, root)) return;
    for (std::size_t k = 0; k < taken; ++k) {
      const std::size_t giver = roles.root_gives ? static_cast<std::size_t>(root) : k;
      model::require(output[k] == value(index, giver, roles.is_personalised ? own : 0), "a wrong result");
    }
  }

  const BoardShape shape_;

 private:
  static Value value(std::size_t call, std::size_t giver, std::size_t block) {
    return 1000 + 100 * call + 10 * giver + block;
  }
};

// Collectives of few ranks.
class AmongFewRanks : public Calls {
 public:
  explicit AmongFewRanks(int ranks, int most_short_slots)
      : Calls({.ranks = ranks, .window_bytes = 0, .most_short_slots = most_short_slots}) {}
  void begin() override {
    constexpr std::array kinds{Collective::allgather, Collective::bcast, Collective::bcast,
                               Collective::gather};
    for (std::size_t k = 0; k < calls; ++k) {
      kinds_[k] = kinds[model::random(kinds.size())];
      roots_[k] = static_cast<int>(model::random(static_cast<unsigned>(shape_.ranks)));
    }
  }

 private:
  template <Collective collective>
  void run_in_slots(Board& board, std::size_t call) const {
    run_text<WaitForAllSlots<direct::InSlots<collective>>>(board, collective, call, roots_[call]);
  }
  [[nodiscard]] Collective kind_of(std::size_t call) const override { return kinds_[call]; }
  void make_call(Board& board, std::size_t call) override {
    switch (kind_of(call)) {
      case Collective::allgather:
        return run_in_slots<Collective::allgather>(board, call);
      case Collective::bcast:
        return run_in_slots<Collective::bcast>(board, call);
      default:
        return run_in_slots<Collective::gather>(board, call);
    }
  }
  std::array<Collective, calls> kinds_{};
  std::array<int, calls> roots_{};
};

// Collectives of many ranks, in a tree of groups of two, and barriers in a butterfly. Before a barrier, each
// rank writes to memory that the next rank reads afterwards.
class AmongManyRanks : public Calls {
 public:
  explicit AmongManyRanks(int ranks) : Calls({.ranks = ranks, .window_bytes = 4096, .most_short_slots = 0}) {}
  void begin() override {
    constexpr std::array kinds{Collective::allgather, Collective::bcast,   Collective::gather,
                               Collective::scatter,   Collective::barrier, Collective::bcast};
    for (std::size_t k = 0; k < calls; ++k) {
      kinds_[k] = kinds[model::random(kinds.size())];
      roots_[k] = static_cast<int>(model::random(static_cast<unsigned>(shape_.ranks)));
    }
  }

 private:
  template <Collective collective>
  void run_in_tree(Board& board, std::size_t call) const {
    run_text<TreePass<TreeForm<collective, 1>>>(board, collective, call, roots_[call]);
  }
  [[nodiscard]] Collective kind_of(std::size_t call) const override { return kinds_[call]; }
  void make_call(Board& board, std::size_t call) override {
    switch (kind_of(call)) {
      case Collective::allgather:
        return run_text<allgather_algorithms::BruckInSlots>(board, Collective::allgather, call, 0);
      case Collective::bcast:
        return run_in_tree<Collective::bcast>(board, call);
      case Collective::gather:
        return run_in_tree<Collective::gather>(board, call);
      case Collective::scatter:
        return run_in_tree<Collective::scatter>(board, call);
      default:
        break;
    }
    Value written = call;
    const auto place = [&](int rank) { return board.window(0, rank % board.size) + 8 * call; };
    std::memcpy(place(board.rank), &written, sizeof written);
    run_text<ButterflyPass<Collective::barrier, 1>>(board, Collective::barrier, call, 0);
    Value found = 0;
    std::memcpy(&found, place(board.rank + 1), sizeof found);
    model::require(found == call, "a rank has left the barrier early");
  }
  std::array<Collective, calls> kinds_{};
  std::array<int, calls> roots_{};
};

TEST(ModelOfSlots, OfTwoRanksAreRight) {
  for (const int most_short_slots : {0, 2}) {
    AmongFewRanks two(2, most_short_slots);
    model::expect_right(two, 2);
  }
}

TEST(ModelOfSlots, OfThreeRanksAreRight) {
  AmongFewRanks three(3, 2);
  model::expect_right(three, 3);
}

TEST(ModelOfSlots, HaveNeedOfEachStep) {
  AmongFewRanks in_inline_slots(2, 0);
  AmongFewRanks in_short_slots(2, 2);
  model::expect_mutations_found({&in_inline_slots, &in_short_slots}, 2);
}

TEST(ModelOfTrees, AreRight) {
  AmongManyRanks three(3);
  model::expect_right(three, 3);
}

TEST(ModelOfTrees, HaveNeedOfEachStep) {
  AmongManyRanks three(3);
  model::expect_mutations_found({&three}, 3);
}

}  // namespace
}  // namespace offbeat
