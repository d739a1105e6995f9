// SPDX-License-Identifier: BSD-3-Clause
// The immediate form of an allgather for many ranks: Bruck's steps on the slots of the board. A slot begins
// with the rank's own block. In step k each rank appends as many blocks as it has, 2^k, or those that are
// missing, from the slot of the rank 2^k above it, around the end.
//
//     p = 5    0         1         2         3         4
//     step 0   0 1       1 2       2 3       3 4       4 0
//     step 1   0 1 2 3   1 2 3 4   2 3 4 0   3 4 0 1   4 0 1 2
//     step 2   all, each from the rank above by 4
//
// Cost: ceil(log2 p) slots read, and the blocks of all ranks once. All ranks read at once, each from another
// one. So no line is read by more than one rank at a time, while a tree would have the data of all read by
// several ranks at each level.
// Source: Bruck et al. 1997. When a slot is used again: readers.hpp.
#pragma once

#include <algorithm>

#include "base/copy.hpp"
#include "collectives/algorithm.hpp"
#include "collectives/board/readers.hpp"
#include "node/board_awaitables.hpp"

namespace offbeat::allgather_algorithms {

class BruckInSlots {
 public:
  static std::size_t most_bytes(int ranks) {
    return BoardShape::inline_bytes / static_cast<std::size_t>(ranks);
  }

  // For collective number board.sequence.present.
  BruckInSlots(Board& board, const Call& call)
      : board_(board), call_(call), sequence_(board.sequence.present), bytes_(call.input.bytes()) {}

  // Another step is left.
  [[nodiscard]] bool is_open() const { return have_ < board_.size; }
  [[nodiscard]] int source() const { return (board_.rank + have_) % board_.size; }
  // Whether the blocks that `rank` would have before this step are there.
  [[nodiscard]] bool has_come(int rank) const {
    return slot(rank).steps.load(std::memory_order_acquire) >= number();
  }
  // Its own block, the first time, or what the source has.
  void append() {
    Board::InlineSlot& mine = slot(board_.rank);
    if (call_.input.data == nullptr) return;
    if (have_ == 0) {
      copy_to_shared(mine.data, call_.input.data, bytes_);
    } else {
      copy_to_shared(mine.data + bytes_of(have_), slot(source()).data, bytes_of(missing()));
    }
  }
  // Call after append().
  void show() {
    have_ += have_ == 0 ? 1 : missing();
    ++step_;
    slot(board_.rank).steps.store(number(), std::memory_order_release);
  }
  void take() const {
    if (call_.output.data == nullptr) return;
    const std::byte* all = slot(board_.rank).data;
    const std::size_t to_end = bytes_of(board_.size - board_.rank);
    const std::size_t before = bytes_of(board_.rank);
    if (bytes_ == 0) return;
    offbeat::copy(call_.output.data + before, all, to_end);
    offbeat::copy(call_.output.data, all + to_end, before);
  }

  // For virtual time.
  [[nodiscard]] const void* data() const { return &slot(source()); }
  [[nodiscard]] std::size_t bytes_read() const { return Board::InlineSlot::bytes_with(bytes_of(missing())); }

 private:
  [[nodiscard]] Board::InlineSlot& slot(int rank) const { return board_.inline_slot(sequence_, rank); }
  [[nodiscard]] std::size_t bytes_of(int blocks) const { return static_cast<std::size_t>(blocks) * bytes_; }
  [[nodiscard]] int missing() const { return std::min(have_, board_.size - have_); }
  // Grows from step to step and from collective to collective.
  [[nodiscard]] std::uint64_t number() const { return sequence_ << 8 | static_cast<std::uint64_t>(step_); }

  Board& board_;
  const Call& call_;
  const std::uint64_t sequence_;
  const std::size_t bytes_;
  int have_ = 0;  // blocks
  int step_ = 0;
};

inline bool run_bruck_in_slots(Board& board, const Call& call) {
  board.sequence.next(true);
  wait_for_readers(board, board.sequence, board.slot_readers);
  note_readers(board.sequence, board.slot_readers, {.distances = true});
  BruckInSlots form(board, call);
  form.append();
  form.show();
  board.bell().ring();
  while (form.is_open()) {
    const auto has_come = [&form](int rank) { return form.has_come(rank); };
    if (!has_come(form.source())) {
      Patience::Wait wait(board.patience);
      while (!has_come(form.source()))
        wait.pause(board.patience.shares_cores && board.core_is_wanted(has_come));
    }
    form.append();
    form.show();
    board.bell().ring();
  }
  form.take();
  return true;
}

inline Task run_bruck_in_slots_in_steps(Endpoint net, Call call, const Expression&) {
  Board& board = *net.board();
  board.sequence.next(true);
  if (board.sequence.follows_apart())
    co_await wait_for_readers_in_steps(board, board.sequence, board.slot_readers);
  note_readers(board.sequence, board.slot_readers, {.distances = true});
  BruckInSlots form(board, call);
  co_await board.touch();
  form.append();
  form.show();
  board.bell().ring();
  while (form.is_open()) {
    Patience::Wait wait(board.patience);
    while (!form.has_come(form.source())) co_await board.pause(wait);
    co_await board.fetch(form.source(), form.data(), form.bytes_read());
    form.append();
    co_await board.touch();
    form.show();
    board.bell().ring();
  }
  form.take();
}

inline constexpr Immediate bruck_in_slots{.most_ranks = Board::most_ranks,
                                          .most_bytes = BruckInSlots::most_bytes,
                                          .run = run_bruck_in_slots,
                                          .run_in_steps = run_bruck_in_slots_in_steps};

}  // namespace offbeat::allgather_algorithms
