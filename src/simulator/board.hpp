// SPDX-License-Identifier: BSD-3-Clause
// The board of a simulated node, in virtual time: one memory for its ranks, and waiting that costs no events.
//
// A touch takes one cache line transfer and has its effect at the end of it; that wakes every rank that
// pauses. Between a look at the board and the pause that follows nothing else runs, so no wake-up is lost. A
// look is free. What it finds, and the data, are fetched, which takes time where the Network says so.
#pragma once

#include <coroutine>
#include <cstddef>
#include <cstdint>
#include <span>
#include <unordered_map>
#include <vector>

#include "node/board.hpp"
#include "simulator/memory.hpp"
#include "simulator/port.hpp"

namespace offbeat {

class Simulator;
struct SimulationResult;

class SimulatedBoard final : public BoardInSimulation {
 public:
  // The board of these ranks of the simulator. A phantom board has no windows. Call clear() before each run.
  SimulatedBoard(Simulator& simulator, std::vector<int> ranks, std::size_t window_bytes, bool phantom);

  [[nodiscard]] std::span<const int> ranks() const { return ranks_; }
  [[nodiscard]] Board& of(int member) { return boards_[static_cast<std::size_t>(member)]; }

  // Makes the board new: zeros, round 0, no waiting rank.
  void clear();

  void touch(int member, std::coroutine_handle<> waiter) override;
  void pause(int member, std::coroutine_handle<> waiter) override;
  bool fetch(int member, int owner, const void* data, std::size_t bytes,
             std::coroutine_handle<> waiter) override;
  // Lets every rank that pauses go on, after the event that is being dispatched: a touch by this rank.
  void wake(int toucher);

  // What its ranks have read since it was new.
  void report_reads(SimulationResult& result) const;

  // Appends the ranks that pause.
  void list_waiting(std::vector<int>& ranks) const;

 private:
  struct Paused {
    int rank;
    std::coroutine_handle<> waiter;
    double since;
  };

  [[nodiscard]] int rank_of(int member) const { return ranks_[static_cast<std::size_t>(member)]; }

  Simulator& simulator_;
  std::vector<int> ranks_;
  BoardShape shape_;
  SimulatedMemory memory_;
  std::vector<Board> boards_;  // as each rank sees it
  std::vector<Paused> paused_;
  std::vector<SimulatedPort> lines_of_;  // what each rank wrote, on its way to others
  std::vector<std::uint64_t> lines_read_;
  std::unordered_map<const void*, std::uint64_t> readers_;  // of the data that begin there
};

}  // namespace offbeat
