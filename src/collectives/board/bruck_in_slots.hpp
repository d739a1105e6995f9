// SPDX-License-Identifier: BSD-3-Clause
// Idea: Bruck's allgather on the slots of the board, the immediate form for many ranks. A slot begins with
// the rank's own block. In step k each rank appends 2^k blocks, or those that are still missing, from the
// slot of the rank 2^k above it, around the end.
//
//     p = 5    0         1         2         3         4
//     step 0   0 1       1 2       2 3       3 4       4 0
//     step 1   0 1 2 3   1 2 3 4   2 3 4 0   3 4 0 1   4 0 1 2
//     step 2   all, each from the rank above by 4
//
// Cost: ceil(log2 p) slots read, and the blocks of all ranks once. In each step every rank reads from a
// different rank, so no line is read by two ranks at a time. In a tree several ranks would read all blocks at
// each level.
// Source: Bruck et al. 1997. readers.hpp says when a slot is used again.
#pragma once

#include <algorithm>

#include "base/copy.hpp"
#include "collectives/algorithm.hpp"
#include "collectives/board/readers.hpp"
#include "collectives/board/waits.hpp"

namespace offbeat::allgather_algorithms {

// The steps of this form, written once for both drivers (waits.hpp).
class BruckInSlots {
 public:
  static constexpr bool all_meet = true;
  using Operands = NoOperands;
  static std::size_t most_bytes(int ranks) {
    return BoardShape::inline_bytes / static_cast<std::size_t>(ranks);
  }

  BruckInSlots(Board& board, const Call& call, Operands&)
      : board_(board),
        beginning_(board, board.sequence, ReadersBefore(board, board.sequence, board.slot_readers), all_meet),
        call_(call),
        sequence_(board.sequence.tag),
        bytes_(call.input.bytes()) {}

  template <class Waits>
  [[nodiscard]] bool advance(Waits& waits) {
    return resumable_sections_.run(
        [&] { return beginning_.advance(waits); },
        [&] { note_readers(board_.sequence, board_.slot_readers, {.powers_below = true}); },
        [&] { return begin(waits); }, [&] { return run_steps(waits); }, [&] { take_result(); });
  }
  [[nodiscard]] static bool has_served() { return true; }

 private:
  // Puts the rank's own block into its slot.
  template <class Waits>
  bool begin(Waits& waits) {
    if (!waits.touch()) return false;
    if (has_data()) copy_to_shared(slot(board_.rank).data, call_.input.data, bytes_);
    announce_blocks(1);
    return true;
  }
  // Appends the blocks of other ranks, step by step.
  template <class Waits>
  bool run_steps(Waits& waits) {
    for (; blocks_to_append() > 0; step_sections_ = {}) {
      if (!step_sections_.run([&] { return append_blocks(waits); }, [&] { return waits.touch(); }))
        return false;
      announce_blocks(blocks_to_append());
    }
    return true;
  }
  template <class Waits>
  bool append_blocks(Waits& waits) {
    const int source = (board_.rank + blocks_in_slot_) % board_.size;
    const auto has_arrived = [this](int rank) { return this->has_arrived(rank); };
    const auto blocks = [&] {
      return Reading{&slot(source), Board::InlineSlot::bytes_with(bytes_of(blocks_to_append()))};
    };
    if (!waits.until([&] { return has_arrived(source); }, has_arrived)) return false;
    if (!waits.charge_fetch(source, blocks)) return false;
    if (has_data())
      copy_to_shared(slot(board_.rank).data + bytes_of(blocks_in_slot_), slot(source).data,
                     bytes_of(blocks_to_append()));
    return true;
  }
  // Returns true if the slot of `rank` has the blocks that this step takes from it.
  [[nodiscard]] bool has_arrived(int rank) const { return Board::has_steps(slot(rank), sequence_, step_); }
  // Announces that this rank's slot has `blocks` more blocks.
  void announce_blocks(int blocks) {
    blocks_in_slot_ += blocks;
    ++step_;
    slot(board_.rank).steps.store(Board::word_of_steps(sequence_, step_), std::memory_order_release);
    board_.bell().ring();
  }
  void take_result() const {
    if (call_.output.data == nullptr || bytes_ == 0) return;
    const std::byte* all = slot(board_.rank).data;
    const std::size_t to_end = bytes_of(board_.size - board_.rank);
    const std::size_t before = bytes_of(board_.rank);
    offbeat::copy(call_.output.data + before, all, to_end);
    offbeat::copy(call_.output.data, all + to_end, before);
  }

  [[nodiscard]] bool has_data() const { return call_.input.data != nullptr; }
  [[nodiscard]] Board::InlineSlot& slot(int rank) const { return board_.inline_slot(sequence_, rank); }
  [[nodiscard]] std::size_t bytes_of(int blocks) const { return static_cast<std::size_t>(blocks) * bytes_; }
  // Returns the number of blocks that this step appends, or 0 if this rank has all.
  [[nodiscard]] int blocks_to_append() const {
    return std::min(blocks_in_slot_, board_.size - blocks_in_slot_);
  }

  Board& board_;
  ResumableSections resumable_sections_;
  RoundBeginning<ReadersBefore> beginning_;
  const Call& call_;
  const std::uint64_t sequence_;
  const std::size_t bytes_;
  int blocks_in_slot_ = 0;  // number of blocks in this rank's slot
  int step_ = 0;
  ResumableSections step_sections_;
};

inline constexpr Immediate bruck_in_slots{.most_ranks = Board::most_ranks,
                                          .most_bytes = BruckInSlots::most_bytes,
                                          .run = run_spinning<BruckInSlots>,
                                          .run_in_steps = run_in_steps<BruckInSlots>};

}  // namespace offbeat::allgather_algorithms
