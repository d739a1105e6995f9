// SPDX-License-Identifier: BSD-3-Clause
// The board of a simulated node in virtual time: one memory for its ranks, and waits that cost no events.
//
// A touch is a write to the board. It takes the time of one cache line transfer and has its effect at the end
// of it. Then every paused rank wakes up, unless it said what it waits for, and that is not there. Nothing
// runs between a rank's look at the board and its pause, so no wake-up is lost. A look is free. Fetching what
// it found takes time if the SimulatedMachine says so.
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
  // Makes the board of these ranks of the simulator. Call clear() before each run.
  SimulatedBoard(Simulator& simulator, std::vector<int> ranks, std::size_t window_bytes, bool phantom);

  [[nodiscard]] std::span<const int> ranks() const { return ranks_; }
  [[nodiscard]] Board& of(int member) { return boards_[static_cast<std::size_t>(member)]; }

  // Resets the board: memory zero, round 0, no rank waiting. The cores keep their lines.
  void clear();
  // Forgets which cores have read and written what. Until they do, any core may have everything.
  void forget_uses() { uses_.clear(); }
  [[nodiscard]] bool knows_uses() const { return !uses_.empty(); }

  // Returns the time in which a rank takes the lines of some data from all who have them.
  [[nodiscard]] double put_seconds(int member, const void* data, std::size_t bytes);
  // A rank writes the data, so it alone has their lines.
  void note_put(int member, const void* data, std::size_t bytes);

  void touch(int member, std::coroutine_handle<> waiter, std::size_t bytes) override;
  void exchange(int member, std::coroutine_handle<> waiter) override;
  void pause(int member, std::coroutine_handle<> waiter, Awaited awaited) override;
  bool charge_fetch(int member, int owner, const void* data, std::size_t bytes,
                    std::coroutine_handle<> waiter) override;
  [[nodiscard]] std::size_t paused() const { return paused_.size(); }
  // Resumes the first `count` paused ranks for which what they wait for may hold, after a touch by rank
  // `toucher`.
  void wake(int toucher, std::size_t count);

  // Adds to `result` what the ranks have read since clear().
  void add_reads_to(SimulationResult& result) const;

  // Appends to `ranks` those that wait on this board.
  void list_waiting(std::vector<int>& ranks) const;

 private:
  struct Paused {
    int rank;
    std::coroutine_handle<> waiter;
    double paused_since;
    Awaited awaited;
  };

  // Which ranks have a part of the board in their caches.
  struct Use {
    int writer = -1;            // the last one; -1: not known
    std::uint32_t readers = 0;  // 1 + the level of its farthest reader since; 0: nobody has read it
  };
  // Returns the parts in which some data are. Empty if they are not on the board.
  [[nodiscard]] std::span<Use> uses_of(const void* data, std::size_t bytes);

  [[nodiscard]] int rank_of(int member) const { return ranks_[static_cast<std::size_t>(member)]; }

  Simulator& simulator_;
  std::vector<int> ranks_;
  BoardShape shape_;
  SimulatedMemory memory_;
  std::vector<Board> boards_;  // the view of each rank
  std::vector<Paused> paused_;
  std::vector<ExclusivePort> line_ports_;  // per rank: the lines that it wrote, on their way to readers
  std::vector<std::uint64_t> lines_read_;
  std::unordered_map<const void*, std::uint64_t> readers_;  // how often the data at each address were read
  std::vector<Use> uses_;  // of each 4 KiB of the board, as far as it was used
};

}  // namespace offbeat
