// SPDX-License-Identifier: BSD-3-Clause
#include "groups/board_transport.hpp"

#include <utility>

#include "base/error.hpp"
#include "groups/operations_under_way.hpp"

namespace offbeat {

void BoardTransport::use(Board& node_board) {
  board = &node_board;
  const SleepCall sleep = patience_.sleep;
  patience_ = node_board.patience;
  patience_.bell = nullptr;
  patience_.sleep = sleep;
}

bool BoardTransport::start(Transfer&) { throw CommunicationError("this algorithm sends messages"); }

// If no other coroutine of the rank can run, the rank waits here, and only gives the host its turns. The copy
// goes on, and so do those that prefetch() has begun.
bool BoardTransport::start_on_device(Computation& computation) {
  if (devices_->begin(computation)) return true;
  if (others_can_run()) return false;
  Patience::Wait wait(patience_);
  while (!devices_->advance()) wait.pause();
  return true;
}

bool BoardTransport::end_round_or_suspend() {
  if (devices_->try_to_end_round()) return true;
  if (others_can_run()) return false;
  Patience::Wait wait(patience_);
  while (!devices_->try_to_end_round()) wait.pause();
  return true;
}

bool BoardTransport::test_messages() {
  if (awaits_others()) return false;
  throw CommunicationError("a collective has not ended, but waits for nothing");
}

template <class Body>
void BoardTransport::guarded(Task& task, Body&& body) {
  try {
    body();
  } catch (...) {
    abandon(task);
    throw;
  }
}

// Memory to which the host may still write is never freed. A message that has begun to arrive cannot be
// cancelled, and MPI_Cancel itself was seen to crash (MPICH 5.0 with UCX).
void BoardTransport::abandon(Task& task) noexcept {
  at_board_.clear();
  if (devices_ != nullptr) devices_->abandon();
  if (abandon_messages()) task.leak();
}

void BoardTransport::drive(Task& task, const StandInCopies* stand_ins) {
  running_coroutines = 1;
  first_coroutine_failure = nullptr;
  use(stand_ins);
  guarded(task, [&] {
    task.start();
    while (!is_over(task)) {
      const auto waits_for_board_only = [&] {
        return !has_messages() && (devices_ == nullptr || !devices_->is_working());
      };
      const bool only_board = waits_for_board_only();
      Patience::Wait wait(only_board && board != nullptr ? board->patience : patience_);
      while (!move() && !is_over(task) && waits_for_board_only() == only_board) {
        if (!operations_under_way.advance(HostCalls::messages)) wait.pause();
      }
    }
    if (devices_ == nullptr) return;
    Patience::Wait wait(patience_);
    while (!devices_->are_copies_complete()) wait.pause();
  });
}

void BoardTransport::begin(Task& task, const StandInCopies* stand_ins) {
  use(stand_ins);
  running_coroutines = 2;  // the program is the other branch: never wait inside start()
  first_coroutine_failure = nullptr;
  guarded(task, [&] { task.start(); });
}

bool BoardTransport::advance(Task& task, bool& got_further, HostCalls calls) {
  guarded(task, [&] {
    got_further = !is_over(task) && move();
    // The host may still have messages of the program to move, and another rank may have failed.
    if (!got_further && calls == HostCalls::all && !is_over(task)) patience_.turn();
  });
  return is_over(task) && (devices_ == nullptr || devices_->are_copies_complete());
}

bool BoardTransport::is_over(const Task& task) const {
  if (first_coroutine_failure) std::rethrow_exception(first_coroutine_failure);
  if (!task.done()) return false;
  task.rethrow_if_failed();
  return true;
}

bool BoardTransport::move() {
  got_further_ = false;
  const bool has_copied = devices_ != nullptr && devices_->is_working() && devices_->advance();
  const bool moved = has_copied || test_messages();
  look_at_board();
  return moved || got_further_;
}

void BoardTransport::look_at_board() {
  looking_.clear();
  std::swap(looking_, at_board_);
  for (const std::coroutine_handle<> waiter : looking_) waiter.resume();
}

}  // namespace offbeat
