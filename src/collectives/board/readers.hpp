// SPDX-License-Identifier: BSD-3-Clause
// When a slot may be written again, where few ranks read it: the part of a tree that touches this rank, or
// the ranks at distances 1, 2, 4 and so on.
//
// Collective s writes to the half of the board that s - 2 has used. What this rank wrote in s - 2 was read by
// a few others, which it remembers (Board::Readers). So it may write as soon as these have ended s - 2, for
// which it is enough that they have begun s - 1.
// - If all ranks meet in s - 1, whoever has ended s - 1 knows that all have begun it. That holds in a tree,
//   too: the root tells its children only after it has heard of every rank.
// - If not, each rank shows that it has begun s - 1 before it does anything else there. So this rank looks at
//   the signs of the readers of s - 2 only. It does so even if it will not write in s: so nobody can still
//   read what it wrote in s - 4.
// - If s - 2 was a collective in which any rank may read any slot (immediate.hpp), it looks at all signs.
//   After a collective in which not all ranks met, it looks at all signs, too, if ranks write to words that
//   they share.
// Nobody waits forever here: a rank shows its sign before it waits, and it waits for ranks that have not yet
// begun s - 1, of which those furthest behind wait for nobody.
// The same holds for rounds and windows.
#pragma once

#include <array>

#include "collectives/board/board_rounds.hpp"

namespace offbeat {

using ReadersOfHalves = std::array<Board::Readers, 2>;

// Of what this rank writes in the present collective, or round.
inline void note_readers(const Board::RoundNumber& number, ReadersOfHalves& all, Board::Readers readers) {
  readers.number = number.present;
  all[readers.number & 1] = readers;
}

// For whom a rank waits: for the readers of what it wrote two collectives ago.
class ReadersBefore {
 public:
  ReadersBefore(const Board& board, const Board::RoundNumber& number, const ReadersOfHalves& all)
      : board_(board), number_(number), readers_(all[number.present & 1]) {}

  [[nodiscard]] bool is_free() const {
    return !number_.follows_apart() || visit([this](int rank) { return board_.has_begun(number_, rank); });
  }
  // The reader after `index` others; -1: there is none.
  [[nodiscard]] int rank(int index) const {
    int found = -1;
    const bool is_behind_all = visit([&](int rank) {
      found = rank;
      return index-- > 0;
    });
    return is_behind_all ? -1 : found;
  }

 private:
  // Calls see(rank) for each reader until it returns false; whether it never did.
  template <class See>
  bool visit(See&& see) const {
    if (readers_.number + 2 != number_.present) {
      for (int rank = 0; rank < board_.size; ++rank) {
        if (rank != board_.rank && !see(rank)) return false;
      }
      return true;
    }
    const RadixTree& tree = readers_.tree;
    if (readers_.parent && !tree.is_root() && !see(tree.parent())) return false;
    for (int level = 0; readers_.children && level < tree.height(); ++level) {
      const RadixTree::Group group = tree.group(level);
      for (int block = 0; block < group.size(); ++block) {
        if (block != group.mine() && !see(group.rank(block))) return false;
      }
    }
    for (int distance = 1; readers_.distances && distance < board_.size; distance *= 2) {
      if (!see((board_.rank - distance + board_.size) % board_.size)) return false;
    }
    for (int distance = 1; readers_.above && board_.rank + distance < board_.size; distance *= 2) {
      if (!see(board_.rank + distance)) return false;
    }
    for (const int rank : readers_.few) {
      if (rank >= 0 && !see(rank)) return false;
    }
    return true;
  }

  const Board& board_;
  const Board::RoundNumber& number_;
  const Board::Readers& readers_;
};

}  // namespace offbeat
