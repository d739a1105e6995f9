// SPDX-License-Identifier: BSD-3-Clause
// The awaitables of the board. In production only a pause suspends, and only while other coroutines of this
// rank can run. In the simulator, everything suspends that takes virtual time.
#pragma once

#include <atomic>
#include <coroutine>
#include <cstddef>
#include <cstdint>

#include "node/board.hpp"

namespace offbeat {

class Board::Arrival {
 public:
  Arrival(Board& board, Word& counter) : board_(board), arrival_counter_(counter) {}
  [[nodiscard]] bool await_ready() const { return board_.simulation == nullptr; }
  void await_suspend(std::coroutine_handle<> waiter) const {
    board_.simulation->exchange(board_.rank, waiter);
  }
  // The counter is never reset. In each round that uses this half it grows by the number of ranks.
  [[nodiscard]] int await_resume() const {
    return static_cast<int>(arrival_counter_.fetch_add(1, std::memory_order_acq_rel) %
                            static_cast<std::uint64_t>(board_.size));
  }

 private:
  Board& board_;
  Word& arrival_counter_;
};

class Board::Touch {
 public:
  Touch(Board& board, std::size_t bytes) : board_(board), bytes_(bytes) {}
  [[nodiscard]] bool await_ready() const { return board_.simulation == nullptr; }
  void await_suspend(std::coroutine_handle<> waiter) const {
    board_.simulation->touch(board_.rank, waiter, bytes_);
  }
  void await_resume() const {}

 private:
  Board& board_;
  std::size_t bytes_;
};

class Board::Fetch {
 public:
  Fetch(Board& board, int owner, const void* data, std::size_t bytes)
      : board_(board), owner_(owner), data_(data), bytes_(bytes) {}
  [[nodiscard]] bool await_ready() const { return board_.simulation == nullptr; }
  [[nodiscard]] bool await_suspend(std::coroutine_handle<> waiter) const {
    return board_.simulation->charge_fetch(board_.rank, owner_, data_, bytes_, waiter);
  }
  void await_resume() const {}

 private:
  Board& board_;
  int owner_;
  const void* data_;
  std::size_t bytes_;
};

class Board::Announcement {
 public:
  Announcement(Board& board, Word& word, std::uint64_t value) : board_(board), word_(word), value_(value) {}
  [[nodiscard]] bool await_ready() const { return board_.simulation == nullptr; }
  void await_suspend(std::coroutine_handle<> waiter) const { board_.simulation->touch(board_.rank, waiter); }
  void await_resume() const {
    word_.store(value_, std::memory_order_release);
    board_.bell().ring();
  }

 private:
  Board& board_;
  Word& word_;
  std::uint64_t value_;
};

class Board::MarkExchange {
 public:
  MarkExchange(Board& board, Word& word, std::uint64_t value) : board_(board), word_(word), value_(value) {}
  [[nodiscard]] bool await_ready() const { return board_.simulation == nullptr; }
  void await_suspend(std::coroutine_handle<> waiter) const {
    board_.simulation->exchange(board_.rank, waiter);
  }
  [[nodiscard]] Mark await_resume() const { return Mark(word_.exchange(value_, std::memory_order_acq_rel)); }

 private:
  Board& board_;
  Word& word_;
  std::uint64_t value_;
};

class Board::Pause {
 public:
  Pause(Board& board, Patience::Wait& wait, Awaited awaited)
      : board_(board), wait_(wait), awaited_(awaited) {}
  [[nodiscard]] bool await_ready() const {
    if (board_.simulation != nullptr) return false;
    if (board_.waiters != nullptr && board_.waiters->others_can_run()) return false;
    wait_.pause(board_.patience.shares_cores && board_.core_is_wanted([this](int other) {
      return board_.signs(other).contributed_round.load(std::memory_order_relaxed) >= board_.round.present;
    }));
    return true;
  }
  void await_suspend(std::coroutine_handle<> waiter) const {
    if (board_.simulation != nullptr) {
      board_.simulation->pause(board_.rank, waiter, awaited_);
    } else {
      board_.waiters->wait_for_board(waiter, wait_.begins());
    }
  }
  void await_resume() const {}

 private:
  Board& board_;
  Patience::Wait& wait_;
  Awaited awaited_;
};

inline Board::Arrival Board::arrive(Word& word) { return {*this, word}; }
inline Board::Announcement Board::announce(Word& word, Mark mark) { return {*this, word, mark.word()}; }
inline Board::MarkExchange Board::exchange(Word& word, Mark mark) { return {*this, word, mark.word()}; }
inline Board::Touch Board::touch(std::size_t bytes) { return {*this, bytes}; }
inline Board::Fetch Board::charge_fetch(int owner, const void* data, std::size_t bytes) {
  return {*this, owner, data, bytes};
}
inline Board::Pause Board::pause(Patience::Wait& wait) { return {*this, wait, {}}; }
template <class Condition>
Board::Pause Board::pause(Patience::Wait& wait, const Condition& condition) {
  return {*this, wait, Awaited(condition)};
}

}  // namespace offbeat
