// SPDX-License-Identifier: BSD-3-Clause
// Beginning a round on the board, in slots (an immediate form) or in windows.
//
//     board.round.next(all_meet);
//     if (!board.may_begin(board.round)) co_await begin_round(board, AllRanks(board, board.round));
#pragma once

#include "base/task.hpp"
#include "collectives/board/waits.hpp"
#include "node/board_awaitables.hpp"

namespace offbeat {

inline constexpr int most_ranks_without_tree = BoardShape::most_ranks_without_tree;

// A rank waits for all ranks before a round that follows one in which not all ranks met, because any rank may
// have read what it wrote `turns` rounds ago. ReadersBefore (readers.hpp) waits for fewer ranks.
class AllRanks {
 public:
  AllRanks(const Board& board, Board::RoundNumber& number, std::uint64_t turns = 2)
      : board_(board),
        number_(number),
        turns_(turns),
        reads_signs_(number.begun_by_all < number.first_after_last_use(turns)) {}
  [[nodiscard]] bool is_free() const { return board_.is_free(number_, turns_); }
  // Returns the rank whose sign is read as number `index`, counted from 0, or -1 if there is none.
  [[nodiscard]] int rank(int index) const { return reads_signs_ && index < board_.size ? index : -1; }

 private:
  const Board& board_;
  Board::RoundNumber& number_;
  const std::uint64_t turns_;
  const bool reads_signs_;
};

// Begins a round. This is a text (waits.hpp) that the texts of immediate forms contain.
template <class Awaited>
class RoundBeginning {
 public:
  RoundBeginning(Board& board, const Board::RoundNumber& number, Awaited awaited, bool all_meet)
      : board_(board), number_(number), awaited_(awaited), all_meet_(all_meet) {}

  template <class Waits>
  [[nodiscard]] bool advance(Waits& waits) {
    return resumable_sections_.run([&] { return all_meet_ || show_sign(waits); },
                                   [&] { return waits.until([this] { return awaited_.is_free(); }); },
                                   [&] { return !waits.is_virtual_time() || read_signs(waits); });
  }

 private:
  template <class Waits>
  bool show_sign(Waits& waits) {
    if (!waits.touch()) return false;
    const Board::Mark begun(number_.present, board_.rank);
    (board_.signs(board_.rank).*number_.sign).store(begun.word(), std::memory_order_release);
    board_.bell().ring();
    return true;
  }
  template <class Waits>
  bool read_signs(Waits& waits) {
    if (!number_.previous_was_partial()) return true;
    for (int rank; (rank = awaited_.rank(signs_read_)) >= 0; ++signs_read_) {
      const Board::Word& sign = board_.signs(rank).*number_.sign;
      if (!waits.charge_fetch(rank, [&] { return Reading{&sign, sizeof sign}; })) return false;
    }
    return true;
  }

  Board& board_;
  const Board::RoundNumber& number_;
  const Awaited awaited_;
  const bool all_meet_;
  ResumableSections resumable_sections_;
  int signs_read_ = 0;
};

// Begins a round in windows if not all ranks meet in it, or did not meet in the one before.
template <class Awaited>
[[nodiscard]] Task begin_round(Board& board, Awaited awaited) {
  RoundBeginning beginning(board, board.round, awaited, !board.round.is_partial());
  SuspendingWaits waits(board);
  while (!beginning.advance(waits)) co_await waits;
}

}  // namespace offbeat
