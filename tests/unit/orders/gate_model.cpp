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

TEST(ModelOfGate, IsRight) {
  Gate gate;
  model::expect_right(gate, 3);
}

TEST(ModelOfGate, HasNeedOfEachStep) {
  Gate gate;
  using model::Change, model::Exempt, model::Place;
  model::expect_mutations_found({&gate}, 3,
                                {{"wait_at_gate", Place::Kind::load, Change::weaken, Exempt::Ending::harmless,
                                  "the rank has looked in begin_use, in one order"}});
}

}  // namespace
}  // namespace offbeat
