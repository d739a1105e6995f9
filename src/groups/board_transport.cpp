// SPDX-License-Identifier: BSD-3-Clause
#include "groups/board_transport.hpp"

#include <utility>

#include "base/error.hpp"
#include "groups/operation.hpp"

namespace offbeat {

void BoardTransport::use(Board& node_board) {
  board = &node_board;
  patience_ = node_board.patience;
  patience_.bell = nullptr;
}

bool BoardTransport::start(Transfer&) { throw CommunicationError("this algorithm sends messages"); }

bool BoardTransport::test_messages() {
  if (awaits_board()) return false;
  throw CommunicationError("a collective has not ended, but waits for nothing");
}

template <class Body>
void BoardTransport::guarded(Task& task, Body&& body) {
  try {
    body();
  } catch (...) {
    at_board_.clear();
    // Memory to which the host may still write is never freed. A message that has begun to arrive cannot be
    // cancelled, and MPI_Cancel itself was seen to crash (MPICH 5.0 with UCX).
    if (abandon_messages()) task.leak();
    throw;
  }
}

void BoardTransport::drive(Task& task, const StandInCopies* stand_ins) {
  branches = 1;
  branch_failure = nullptr;
  stand_ins_ = stand_ins;
  guarded(task, [&] {
    task.start();
    while (!is_over(task)) {
      const bool only_board = !has_messages();
      Patience::Wait wait(only_board && board != nullptr ? board->patience : patience_);
      while (!move() && !is_over(task) && has_messages() != only_board) {
        if (!operations_under_way.advance(HostCalls::messages)) wait.pause();
      }
    }
  });
}

void BoardTransport::begin(Task& task, const StandInCopies* stand_ins) {
  stand_ins_ = stand_ins;
  branches = 2;  // the program is the other branch: never wait inside start()
  branch_failure = nullptr;
  guarded(task, [&] { task.start(); });
}

bool BoardTransport::advance(Task& task, bool& got_further, HostCalls calls) {
  guarded(task, [&] {
    got_further = !is_over(task) && move();
    // The host may still have messages of the program to move, and another rank may have failed.
    if (!got_further && calls == HostCalls::all && !is_over(task)) patience_.turn();
  });
  return is_over(task);
}

bool BoardTransport::is_over(const Task& task) const {
  if (branch_failure) std::rethrow_exception(branch_failure);
  if (!task.done()) return false;
  task.rethrow_if_failed();
  return true;
}

bool BoardTransport::move() {
  got_further_ = false;
  const bool moved = test_messages();
  look_at_board();
  return moved || got_further_;
}

void BoardTransport::look_at_board() {
  looking_.clear();
  std::swap(looking_, at_board_);
  for (const std::coroutine_handle<> waiter : looking_) waiter.resume();
}

}  // namespace offbeat
