// SPDX-License-Identifier: BSD-3-Clause
// The gate of a board (node/board.hpp): begin_use, end_use, give_pages_back and wait_at_gate.
#include "modelled.hpp"
//
#include "node/board.cpp"

namespace offbeat {
namespace {

constexpr BoardShape shape{.ranks = 2, .window_bytes = 4096};

// Two ranks write to their windows in two collectives. A third thread wants the pages back, which sets them
// to zero.
class Gate : public model::Protocol {
 public:
  Gate() : Protocol({.bytes = shape.total_bytes(), .atomics = 16}) {}

  void begin() override { Board(memory(), shape, 0, {}).open_gate(); }
  void run(int thread) override {
    constexpr std::uint64_t zero = 0;
    if (thread == shape.ranks) {
      Board board(memory(), shape, 0, {});
      for (int look = 0; look < 3; ++look) {
        static_cast<void>(board.give_pages_back([&](int, std::byte*, std::size_t) {
          for (int owner = 0; owner < shape.ranks; ++owner)
            std::memcpy(board.window(0, owner), &zero, sizeof zero);
        }));
      }
      return;
    }
    Board board(memory(), shape, thread, {});
    for (std::uint64_t call = 1; call <= 2; ++call) {
      board.begin_use();
      std::memcpy(board.window(0, thread), &call, sizeof call);
      std::uint64_t found = 0;
      std::memcpy(&found, board.window(0, thread), sizeof found);
      model::require(found == call, "pages are given back while they are in use");
      board.end_use();
    }
  }
  void end() override {
    const bool are_given_back =
        Board(memory(), shape, 0, {}).give_pages_back([](int, std::byte*, std::size_t) {});
    model::require(are_given_back, "pages are not given back, although nobody uses them");
  }
};

// Rank 1 uses no window in the first collective. In the second one rank 0 reads what rank 1 has written,
// unless it comes first. Meanwhile a third thread wants the pages back.
class GateAndUsesWithoutWindows : public model::Protocol {
 public:
  GateAndUsesWithoutWindows() : Protocol({.bytes = shape.total_bytes(), .atomics = 16}) {}

  void begin() override { Board(memory(), shape, 0, {}).open_gate(); }
  void run(int thread) override {
    constexpr std::uint64_t written = 7;
    Board board(memory(), shape, thread % shape.ranks, {});
    std::byte* const window = board.window(0, 1);
    if (thread == shape.ranks) {
      for (int look = 0; look < 3; ++look)
        static_cast<void>(board.give_pages_back([&](int, std::byte*, std::size_t) {
          constexpr std::uint64_t zero = 0;
          std::memcpy(window, &zero, sizeof zero);
        }));
    } else if (thread == 1) {
      board.count_use_without_windows();
      board.begin_use();
      std::memcpy(window, &written, sizeof written);
      board.broken().store(1, std::memory_order_release);  // says that it is there
      board.end_use();
    } else {
      board.begin_use();
      board.end_use();
      board.begin_use();
      if (board.broken().load(std::memory_order_acquire) != 0) {
        std::uint64_t found = 0;
        std::memcpy(&found, window, sizeof found);
        model::require(found == written, "pages are given back before all ranks have read them");
      }
      board.end_use();
    }
  }
  void end() override {
    const bool are_given_back =
        Board(memory(), shape, 0, {}).give_pages_back([](int, std::byte*, std::size_t) {});
    model::require(are_given_back, "pages are not given back, although nobody uses them");
  }
};

TEST(ModelOfGate, IsRight) {
  Gate gate;
  model::expect_right(gate, 3);
  GateAndUsesWithoutWindows without;
  model::expect_right(without, 3);
}

TEST(ModelOfGate, HasNeedOfEachStep) {
  Gate gate;
  GateAndUsesWithoutWindows without;
  using model::Change, model::Exempt, model::Place;
  model::expect_mutations_found({&gate, &without}, 3,
                                {{"wait_at_gate", Place::Kind::load, Change::weaken, Exempt::Ending::harmless,
                                  "the rank has looked in begin_use, in one order"},
                                 {"GateAndUsesWithoutWindows::run", Place::Kind::store, Change::leave_out,
                                  Exempt::Ending::harmless, "rank 0 then reads nothing"},
                                 {"count_use_without_windows", Place::Kind::store, Change::weaken,
                                  Exempt::Ending::harmless, "begin_use publishes the count"}});
}

}  // namespace
}  // namespace offbeat
