// SPDX-License-Identifier: BSD-3-Clause
// Interfaces for ranks that do not simply wait on the board. Virtual time, or the rank's other coroutines,
// take over instead.
#pragma once

#include <coroutine>
#include <cstddef>

namespace offbeat {

// What a paused rank waits for: it may go on as soon as this is true. Without one it looks itself.
class Awaited {
 public:
  Awaited() = default;
  // `condition` must outlive the pause.
  template <class Condition>
  explicit Awaited(const Condition& condition)
      : condition_state_(&condition),
        check_condition_([](const void* it) -> bool { return (*static_cast<const Condition*>(it))(); }) {}
  [[nodiscard]] bool may_hold() const {
    return check_condition_ == nullptr || check_condition_(condition_state_);
  }

 private:
  const void* condition_state_ = nullptr;
  bool (*check_condition_)(const void*) = nullptr;
};

// The simulator's replacement for real time; null in production.
class BoardInSimulation {
 public:
  // Resumes `waiter` when the transfer of a cache line is over, and of the lines of `bytes` more bytes that
  // the rank writes.
  virtual void touch(int rank, std::coroutine_handle<> waiter, std::size_t bytes = 0) = 0;
  // Resumes `waiter` when a line has come from the core that wrote it last, and is written.
  virtual void exchange(int rank, std::coroutine_handle<> waiter) = 0;
  // Resumes `waiter` after the next touch by any rank after which `awaited` may hold.
  virtual void pause(int rank, std::coroutine_handle<> waiter, Awaited awaited = {}) = 0;
  // Resumes `waiter` when this rank has read `bytes` bytes that `owner` wrote. Returns false if that takes no
  // time; then `waiter` is not resumed.
  virtual bool charge_fetch(int rank, int owner, const void* data, std::size_t bytes,
                            std::coroutine_handle<> waiter) = 0;

  bool phantom = false;  // true if vectors have no data; nobody touches the memory of windows

 protected:
  ~BoardInSimulation() = default;
};

// A rank with other coroutines to run implements this, so that it need not spin while it waits for the board.
class BoardWaiters {
 public:
  [[nodiscard]] virtual bool others_can_run() const = 0;
  // Resumes `waiter` soon, so that it looks again. `begins` is true if it has not waited for this before.
  virtual void wait_for_board(std::coroutine_handle<> waiter, bool begins) = 0;

 protected:
  ~BoardWaiters() = default;
};

}  // namespace offbeat
