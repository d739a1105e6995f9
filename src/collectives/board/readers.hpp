// SPDX-License-Identifier: BSD-3-Clause
// When a slot may be written again, where few ranks read it: the part of a tree that touches this rank, or
// the ranks at distances 1, 2, 4 and so on.
//
// Collective s writes to the half of the board that s - 2 has used. What this rank wrote in s - 2 was read by
// a few others, which it remembers (Board::Readers). So it may write as soon as these have ended s - 2, for
// which it is enough that they have begun s - 1.
// - If all ranks meet in s - 1, whoever has ended s - 1 knows that all have begun it. In a tree, too: the
// root
//   tells its children only after it has heard of every rank.
// - If not, each rank shows that it has begun s - 1 before it does anything else there. So this rank looks at
//   the signs of the readers of s - 2 only. It does so even if it will not write in s: so nobody can still
//   read what it wrote in s - 4.
// - If s - 2 was a collective in which any rank may read any slot (immediate.hpp), it looks at all signs.
//   So do, after a collective in which not all ranks met, those in which ranks write to words that they
//   share.
// Nobody waits forever here: a rank shows its sign before it waits, and it waits for ranks that have not yet
// begun s - 1, of which those furthest behind wait for nobody.
// The same holds for rounds and windows.
#pragma once

#include <array>

#include "collectives/board/board_rounds.hpp"
#include "node/board_awaitables.hpp"

namespace offbeat {

using ReadersOfHalves = std::array<Board::Readers, 2>;

// Of what this rank writes in the present collective, or round.
inline void note_readers(const Board::Numbers& numbers, ReadersOfHalves& all, Board::Readers readers) {
  readers.number = numbers.present;
  all[readers.number & 1] = readers;
}

// Calls visit(rank) for each reader of two collectives ago until it returns false; whether it never did.
template <class Visit>
bool visit_readers(const Board& board, const Board::Numbers& numbers, const ReadersOfHalves& all,
                   Visit&& visit) {
  const Board::Readers& last = all[numbers.present & 1];
  if (last.number + 2 != numbers.present) {
    for (int rank = 0; rank < board.size; ++rank) {
      if (rank != board.rank && !visit(rank)) return false;
    }
    return true;
  }
  if (last.parent && !last.tree.is_root() && !visit(last.tree.parent())) return false;
  for (int level = 0; last.children && level < last.tree.height(); ++level) {
    const RadixTree::Group group = last.tree.group(level);
    for (int block = 0; block < group.size(); ++block) {
      if (block != group.mine() && !visit(group.rank(block))) return false;
    }
  }
  for (int distance = 1; last.distances && distance < board.size; distance *= 2) {
    if (!visit((board.rank - distance + board.size) % board.size)) return false;
  }
  for (const int rank : last.few) {
    if (rank >= 0 && !visit(rank)) return false;
  }
  return true;
}

// Call after Numbers::next and, if not all ranks meet now, after this rank's sign.
inline void wait_for_readers(const Board& board, const Board::Numbers& numbers, const ReadersOfHalves& all) {
  if (!numbers.follows_apart()) return;
  Patience::Wait wait(board.patience);
  const auto has_begun = [&](int rank) { return board.has_begun(numbers, rank); };
  while (!visit_readers(board, numbers, all, has_begun)) wait.pause();
}

// The same for a rank that has other things to do meanwhile, if follows_apart().
[[nodiscard]] inline Task wait_for_readers_in_steps(Board& board, const Board::Numbers& numbers,
                                                    const ReadersOfHalves& all) {
  Patience::Wait wait(board.patience);
  const auto has_begun = [&](int rank) { return board.has_begun(numbers, rank); };
  while (!visit_readers(board, numbers, all, has_begun)) co_await board.pause(wait);
  if (board.simulation == nullptr) co_return;
  for (int k = 0;; ++k) {  // in virtual time: it has read these signs
    int left = k;
    int reader = board.rank;
    const bool is_last = visit_readers(board, numbers, all, [&](int rank) {
      reader = rank;
      return left-- > 0;
    });
    if (is_last) break;
    co_await board.fetch(reader, &(board.signs(reader).*numbers.sign), sizeof(Board::Word));
  }
}

}  // namespace offbeat
