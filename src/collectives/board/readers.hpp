// SPDX-License-Identifier: BSD-3-Clause
// A slot may be written again as soon as its readers are done with it. This file is for forms in which few
// ranks read a slot: the neighbours of a rank in a tree or a butterfly, or the ranks at distances 1, 2, 4 and
// so on.
//
// Collective s writes to the half of the board that s - 2 used. A few other ranks have read what this rank
// wrote in s - 2, and this rank remembers them (Board::Readers). It may write as soon as they have all ended
// s - 2; it is enough that they have begun s - 1.
// - If all ranks meet in s - 1, a rank that has ended s - 1 knows that all have begun it. This holds in a
//   tree, too, because the root passes data down only after it has heard from every rank.
// - If not, each rank shows that it has begun s - 1 before it does anything else there. So this rank looks
//   only at the signs of the readers of s - 2. It does so even if it will not write in s. This ensures that
//   no rank still reads what it wrote in s - 4.
// - If s - 2 was a collective in which any rank may read any slot (immediate.hpp), this rank looks at all
//   signs. It also does so after a collective in which not all ranks met, if ranks write to words that they
//   share. A collective in short slots counts as one of these, because it notes no readers.
// No rank waits forever: a rank shows its sign before it waits, and it waits only for ranks that have not
// begun s - 1 yet. Those furthest behind wait for nobody. These rules also hold for rounds and windows.
#pragma once

#include <array>

#include "collectives/board/round_beginning.hpp"
#include "patterns/radix_butterfly.hpp"

namespace offbeat {

using ReadersOfHalves = std::array<Board::Readers, 2>;

// Records the readers of what this rank writes in the present collective or round.
inline void note_readers(const Board::RoundNumber& number, ReadersOfHalves& all, Board::Readers readers) {
  readers.number = number.present;
  all[readers.number & 1] = readers;
}

// A rank waits for the readers of what it wrote two collectives ago.
class ReadersBefore {
 public:
  ReadersBefore(const Board& board, const Board::RoundNumber& number, const ReadersOfHalves& all)
      : board_(board), number_(number), readers_(all[number.present & 1]) {}

  [[nodiscard]] bool is_free() const {
    return !number_.previous_was_partial() ||
           all_readers_satisfy([this](int rank) { return board_.began_previous_round(number_, rank); });
  }
  // Returns reader number `index`, counted from 0, or -1 if there is none.
  [[nodiscard]] int rank(int index) const {
    int found = -1;
    const bool is_behind_all = all_readers_satisfy([&](int rank) {
      found = rank;
      return index-- > 0;
    });
    return is_behind_all ? -1 : found;
  }

 private:
  // Calls see(rank) for each reader until see() returns false. Returns true if it never did.
  template <class See>
  bool all_readers_satisfy(See&& see) const {
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
        if (block != group.own_block() && !see(group.rank(block))) return false;
      }
    }
    for (int distance = 1; readers_.powers_below && distance < board_.size; distance *= 2) {
      if (!see((board_.rank - distance + board_.size) % board_.size)) return false;
    }
    for (int distance = 1; readers_.powers_above && board_.rank + distance < board_.size; distance *= 2) {
      if (!see(board_.rank + distance)) return false;
    }
    if (readers_.butterfly_bits > 0) {
      const RadixButterfly butterfly(board_.rank, board_.size, readers_.butterfly_bits);
      for (int level = 0; level < butterfly.levels(); ++level) {
        if (!butterfly.group(level).all_takers_satisfy(see)) return false;
      }
    }
    for (const int rank : readers_.single_readers) {
      if (rank >= 0 && !see(rank)) return false;
    }
    return true;
  }

  const Board& board_;
  const Board::RoundNumber& number_;
  const Board::Readers& readers_;
};

}  // namespace offbeat
