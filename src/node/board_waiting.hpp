// SPDX-License-Identifier: BSD-3-Clause
// Who takes over where a rank does not simply wait on the board: virtual time, or the rank's other
// coroutines.
#pragma once

#include <coroutine>
#include <cstddef>

namespace offbeat {

// The simulator's replacement for real time; null in production.
class BoardInSimulation {
 public:
  // Resume `waiter` when the transfer of a cache line is over.
  virtual void touch(int rank, std::coroutine_handle<> waiter) = 0;
  // Resume `waiter` after the next touch by any rank.
  virtual void pause(int rank, std::coroutine_handle<> waiter) = 0;
  // The same when this rank has read `bytes` that `owner` wrote. False: that takes no time; no resumption.
  virtual bool fetch(int rank, int owner, const void* data, std::size_t bytes,
                     std::coroutine_handle<> waiter) = 0;

  bool phantom = false;  // vectors without data: there are no windows either

 protected:
  ~BoardInSimulation() = default;
};

// For a rank that has other things to do while it waits for the board.
class BoardWaiters {
 public:
  [[nodiscard]] virtual bool others_can_run() const = 0;
  // Resume `waiter` soon, so that it looks again. `begins`: it has not waited for this before.
  virtual void wait_for_board(std::coroutine_handle<> waiter, bool begins) = 0;

 protected:
  ~BoardWaiters() = default;
};

}  // namespace offbeat
