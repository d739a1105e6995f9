// SPDX-License-Identifier: BSD-3-Clause
// The board in virtual time: one memory for all simulated ranks, and waiting that costs no events.
//
// A touch takes one cache line transfer and has its effect at the end of it; that wakes every rank that
// pauses. Between a look at the board and the pause that follows nothing else runs, so no wake-up is lost.
#pragma once

#include <coroutine>
#include <cstddef>
#include <string>
#include <vector>

#include "transport/node/board.hpp"

namespace offbeat {

class Simulator;

class SimulatedBoard final : public BoardInSimulation {
 public:
  // A phantom board has no windows. Call clear() before each run.
  SimulatedBoard(Simulator& simulator, const BoardShape& shape, bool phantom);

  [[nodiscard]] Board& of(int rank) { return boards_[static_cast<std::size_t>(rank)]; }

  // As at the beginning: zero, round 0, nobody waits.
  void clear();

  void touch(int rank, std::coroutine_handle<> waiter) override;
  void pause(int rank, std::coroutine_handle<> waiter) override;
  // Everybody who pauses goes on, after the event that is being dispatched.
  void wake();

  // A line that names the ranks that pause; empty if none does.
  [[nodiscard]] std::string describe_waiting() const;

 private:
  struct alignas(4096) Page {
    std::byte bytes[4096];
  };
  struct Paused {
    int rank;
    std::coroutine_handle<> waiter;
  };

  Simulator& simulator_;
  BoardShape shape_;
  std::vector<Page> memory_;
  std::vector<Board> boards_;  // one for each rank
  std::vector<Paused> paused_;
};

}  // namespace offbeat
