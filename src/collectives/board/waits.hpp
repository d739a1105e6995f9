// SPDX-License-Identifier: BSD-3-Clause
// The steps of an immediate form are written once, as a class called a text. Two drivers run it: a plain
// function and a coroutine.
//
// A text knows how far it has come:
//
//     static constexpr bool all_meet;            true if no rank can end before every rank has begun
//     using Operands = ...;                      what its driver keeps for it, outside of the text
//     Text(Board&, const Call&, Operands&);      for collective number board.sequence.present
//     template <class Waits>
//     bool advance(Waits& waits);                continues until it has to wait; true if it has ended
//     bool has_served() const;                   false if the long form must follow; see Immediate::run
//
// It waits only through the functions of `waits`, which return true if the wait is over:
//
//     if (!waits.until(condition)) return false;
//
// SpinningWaits spins until the wait is over. So advance() returns once, the compiler drops all code for a
// second call, and the driver is a plain function. Blocking collectives use it. SuspendingWaits returns false
// and is then awaited, so its driver is a coroutine. It serves ranks that have other work meanwhile, virtual
// time, and the exploration of interleavings. Both drivers run one text.
//
// A text that continues begins its present section (Sections) again. So whatever a section does before a wait
// may happen twice and must change nothing, and a loop must count in a member. A condition that held once
// must hold until the text continues.
#pragma once

#include <coroutine>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <type_traits>
#include <utility>

#include "base/task.hpp"
#include "collectives/algorithm.hpp"
#include "node/board_awaitables.hpp"
#include "transport/endpoint.hpp"

namespace offbeat {

// Memory of another rank that this rank reads; virtual time charges for it.
struct Reading {
  const void* data = nullptr;
  std::size_t bytes = 0;
};

class SpinningWaits {
 public:
  explicit SpinningWaits(const Board& board) : board_(board) {}

  // Waits until condition() holds.
  template <class Condition>
  [[nodiscard]] bool until(Condition&& condition) const {
    if (!condition()) [[unlikely]] {
      Patience::Wait wait(board_.patience);
      while (!condition()) wait.pause();
    }
    return true;
  }
  // Waits until condition() holds. Until has_arrived(rank) is true, that rank may need this core.
  template <class Condition, class HasCome>
  [[nodiscard]] bool until(Condition&& condition, HasCome&& has_arrived) const {
    if (!condition()) [[unlikely]] {
      Patience::Wait wait(board_.patience);
      while (!condition()) wait.pause(board_.patience.shares_cores && board_.core_is_wanted(has_arrived));
    }
    return true;
  }
  // In virtual time these take the time of Board::touch and Board::charge_fetch. In real time there is
  // nothing to wait for, and `reading` is not called.
  [[nodiscard]] static bool touch() { return true; }
  template <class MakeReading>
  [[nodiscard]] static bool touch(MakeReading&&) {
    return true;
  }
  template <class MakeReading>
  [[nodiscard]] static bool charge_fetch(int, MakeReading&&) {
    return true;
  }
  [[nodiscard]] static constexpr bool is_virtual_time() { return false; }

 private:
  const Board& board_;
};

// Waits by suspending: the driver awaits this object after one of its functions has returned false.
class SuspendingWaits {
 public:
  explicit SuspendingWaits(Board& board) : board_(board) {}

  template <class Condition>
  [[nodiscard]] bool until(Condition&& condition) {
    if (condition()) {
      wait_.reset();
      return true;
    }
    if (!wait_) wait_.emplace(board_.patience);
    pending_wait_ = PendingWait::pause;
    return false;
  }
  template <class Condition, class HasCome>
  [[nodiscard]] bool until(Condition&& condition, HasCome&&) {
    return until(std::forward<Condition>(condition));
  }
  [[nodiscard]] bool touch() {
    return touch([] { return Reading{}; });
  }
  // The rank writes what others read.
  template <class MakeReading>
  [[nodiscard]] bool touch(MakeReading&& reading) {
    if (!is_virtual_time() || std::exchange(is_wait_over_, false)) return true;
    pending_wait_ = PendingWait::touch;
    reading_ = reading();
    return false;
  }
  template <class MakeReading>
  [[nodiscard]] bool charge_fetch(int owner, MakeReading&& reading) {
    if (!is_virtual_time() || std::exchange(is_wait_over_, false)) return true;
    pending_wait_ = PendingWait::fetch;
    owner_ = owner;
    reading_ = reading();
    return false;
  }
  [[nodiscard]] bool is_virtual_time() const { return board_.simulation != nullptr; }

  [[nodiscard]] bool await_ready() {
    return pending_wait_ == PendingWait::pause && board_.pause(*wait_).await_ready();
  }
  [[nodiscard]] bool await_suspend(std::coroutine_handle<> waiter) {
    switch (pending_wait_) {
      case PendingWait::pause:
        board_.pause(*wait_).await_suspend(waiter);
        return true;
      case PendingWait::touch:
        board_.touch(reading_.bytes).await_suspend(waiter);
        return true;
      default:
        return board_.charge_fetch(owner_, reading_.data, reading_.bytes).await_suspend(waiter);
    }
  }
  void await_resume() { is_wait_over_ = pending_wait_ != PendingWait::pause; }

 private:
  enum class PendingWait : std::uint8_t { pause, touch, fetch };

  Board& board_;
  std::optional<Patience::Wait> wait_;
  PendingWait pending_wait_ = PendingWait::pause;
  bool is_wait_over_ = false;  // true if the touch or fetch is over for which the text has waited
  int owner_ = 0;
  Reading reading_{};
};

// Runs the parts of a text, one after the other. Each part is a function. It returns true if it has ended, or
// nothing if it never waits. A part that has ended is not called again.
class ResumableSections {
 public:
  template <class... Section>
  [[nodiscard]] bool run(Section&&... section) {
    int index = 0;
    return ((index++ < ended_ || (has_ended(section) && ++ended_ > 0)) && ...);
  }

 private:
  template <class Section>
  [[nodiscard]] static bool has_ended(Section& section) {
    if constexpr (std::is_void_v<decltype(section())>) {
      section();
      return true;
    } else {
      return section();
    }
  }
  int ended_ = 0;
};

// The operands of a text whose driver keeps nothing for it.
struct NoOperands {};

// The two drivers follow: `Immediate::run` is run_spinning(), and `Immediate::run_in_steps` is
// run_in_steps().

// `flatten`, because the text stays in registers only if it is inlined early.
template <class Text>
[[gnu::flatten]] bool run_spinning(Board& board, const Call& call) {
  board.sequence.next(call.collective, Text::all_meet);
  // The operands are not in the text, because their address is passed on. So the text can stay in registers.
  typename Text::Operands operands;
  Text text(board, call, operands);
  SpinningWaits waits(board);
  static_cast<void>(text.advance(waits));  // to its end
  if constexpr (requires { requires Text::may_use_windows; }) {
    if (text.has_served()) board.count_use_without_windows();
  }
  return text.has_served();
}

// In a phantom simulation one vector of a call may have memory and the other none: in phases of a hierarchy,
// or if only the root has an output. Then this rank copies nothing.
inline void drop_data_of_phantom(Call& call) {
  const auto is_phantom = [](const auto& vector) { return vector.count > 0 && vector.data == nullptr; };
  if (is_phantom(call.input) || is_phantom(call.output)) call.input.data = call.output.data = nullptr;
}

template <class Text>
Task run_in_steps(Endpoint net, Call call, const Expression& self) {
  Board& board = *net.board();
  if (board.simulation != nullptr && board.simulation->phantom) drop_data_of_phantom(call);
  board.sequence.next(call.collective, Text::all_meet);
  typename Text::Operands operands;
  Text text(board, call, operands);
  SuspendingWaits waits(board);
  while (!text.advance(waits)) co_await waits;
  if (!text.has_served()) co_await self.algorithm->run(net, call, self);
}

}  // namespace offbeat
