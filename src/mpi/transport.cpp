// SPDX-License-Identifier: BSD-3-Clause
#include "mpi/transport.hpp"

#include <algorithm>

#include "base/error.hpp"

namespace offbeat {
namespace {

// An MPI-3 count is an int; longer vectors travel as several messages, cut alike on both sides.
constexpr std::size_t most_bytes = std::size_t{1} << 30;

}  // namespace

void MpiTransport::check(int code) const {
  if (code != MPI_SUCCESS) throw CommunicationError("a message of offbeat's failed", code);
}

void MpiTransport::use(Board& node_board) {
  board = &node_board;
  patience_ = node_board.patience;
  patience_.bell = nullptr;
}

bool MpiTransport::start(Transfer& transfer) {
  if (branches == 1 && transfer_at_once(transfer)) return true;
  post(transfer);
  return false;
}

bool MpiTransport::transfer_at_once(const Transfer& transfer) const {
  if (patience_.shares_cores) return false;
  if (transfer.outgoing.bytes() > most_bytes || transfer.incoming.bytes() > most_bytes) return false;
  const int sent = static_cast<int>(transfer.outgoing.bytes());
  const int received = static_cast<int>(transfer.incoming.bytes());
  if (transfer.from == Transfer::nobody) {
    check(host_->Send(transfer.outgoing.data, sent, byte_, transfer.to, transfer.lane, communicator_));
  } else if (transfer.to == Transfer::nobody) {
    check(host_->Recv(transfer.incoming.data, received, byte_, transfer.from, transfer.lane, communicator_,
                      MPI_STATUS_IGNORE));
  } else {
    check(host_->Sendrecv(transfer.outgoing.data, sent, byte_, transfer.to, transfer.lane,
                          transfer.incoming.data, received, byte_, transfer.from, transfer.lane,
                          communicator_, MPI_STATUS_IGNORE));
  }
  return true;
}

void MpiTransport::post(Transfer& transfer) {
  const auto add = [&](auto&& begin) {
    MPI_Request request;
    check(begin(&request));
    requests_.push_back(request);
    owners_.push_back(&transfer);
    ++transfer.pending;
  };
  transfer.pending = 0;
  if (transfer.from != Transfer::nobody) {
    for (std::size_t first = 0; first < transfer.incoming.bytes(); first += most_bytes) {
      const auto bytes = static_cast<int>(std::min(most_bytes, transfer.incoming.bytes() - first));
      add([&](MPI_Request* request) {
        return host_->Irecv(transfer.incoming.data + first, bytes, byte_, transfer.from, transfer.lane,
                            communicator_, request);
      });
    }
  }
  if (transfer.to != Transfer::nobody) {
    for (std::size_t first = 0; first < transfer.outgoing.bytes(); first += most_bytes) {
      const auto bytes = static_cast<int>(std::min(most_bytes, transfer.outgoing.bytes() - first));
      add([&](MPI_Request* request) {
        return host_->Isend(transfer.outgoing.data + first, bytes, byte_, transfer.to, transfer.lane,
                            communicator_, request);
      });
    }
  }
}

template <class Body>
void MpiTransport::guarded(Body&& body) {
  try {
    body();
  } catch (...) {
    abandon();
    throw;
  }
}

void MpiTransport::drive(Task& task) {
  branches = 1;
  guarded([&] {
    task.start();
    while (!task.done()) {
      const bool only_board = requests_.empty();
      Patience::Wait wait(only_board && board != nullptr ? board->patience : patience_);
      while (!move() && !task.done() && requests_.empty() == only_board) wait.pause();
    }
    task.rethrow_if_failed();
  });
}

void MpiTransport::begin(Task& task) {
  branches = 2;  // the program is the other one: never wait inside start()
  guarded([&] { task.start(); });
}

bool MpiTransport::advance(Task& task) {
  guarded([&] {
    if (!task.done() && !move() && requests_.empty() && board != nullptr) {
      // Only the board to wait for: the host still has the program's messages to move.
      board->patience.progress.call(board->patience.progress.state);
    }
    if (task.done()) task.rethrow_if_failed();
  });
  return task.done();
}

bool MpiTransport::move() {
  const bool moved = progress();
  look_at_board();
  return moved;
}

bool MpiTransport::progress() {
  const auto count = requests_.size();
  if (count == 0 && !at_board_.empty()) return false;
  completed_.resize(count);
  statuses_.resize(count);
  int done = 0;
  const int code = host_->Testsome(static_cast<int>(count), requests_.data(), &done, completed_.data(),
                                   statuses_.data());
  if (code != MPI_SUCCESS) {
    for (int k = 0; code == MPI_ERR_IN_STATUS && k < done; ++k)
      check(statuses_[static_cast<std::size_t>(k)].MPI_ERROR);
    check(code);
  }
  // Nothing in flight and the task not done: a child failed and its siblings wait for ever. Leave through the
  // error.
  if (done == MPI_UNDEFINED)
    throw CommunicationError("a collective stopped without an open message", MPI_ERR_INTERN);
  if (done <= 0) return false;

  // First free the places, then resume: what is resumed posts new messages.
  ready_.clear();
  for (int k = 0; k < done; ++k) {
    const auto index = static_cast<std::size_t>(completed_[static_cast<std::size_t>(k)]);
    if (--owners_[index]->pending == 0) ready_.push_back(owners_[index]->waiter);
    owners_[index] = nullptr;
  }
  std::size_t kept = 0;
  for (std::size_t k = 0; k < count; ++k) {
    if (owners_[k] == nullptr) continue;
    owners_[kept] = owners_[k];
    requests_[kept++] = requests_[k];
  }
  owners_.resize(kept);
  requests_.resize(kept);
  for (const std::coroutine_handle<> waiter : ready_) waiter.resume();
  return true;
}

void MpiTransport::look_at_board() {
  looking_.clear();
  std::swap(looking_, at_board_);
  for (const std::coroutine_handle<> waiter : looking_) waiter.resume();
}

// After an error: no request may outlive the buffers in the coroutine frames.
void MpiTransport::abandon() noexcept {
  for (MPI_Request& request : requests_) {
    host_->Cancel(&request);
    host_->Request_free(&request);
  }
  requests_.clear();
  owners_.clear();
  at_board_.clear();
}

}  // namespace offbeat
