// SPDX-License-Identifier: BSD-3-Clause
// The immediate form of an alltoallv; the long form begins with it, too. A slot holds the number of bytes of
// the rank's longest block. If that block fits, the blocks for all others follow at equal distances.
#pragma once

#include <algorithm>
#include <cstring>

#include "base/copy.hpp"
#include "base/task.hpp"
#include "collectives/board/arrival_direct/block_exchange.hpp"
#include "collectives/board/waits.hpp"
#include "node/board.hpp"

namespace offbeat::direct {

class ListsInSlots {
 public:
  static constexpr int most_ranks = Board::most_ranks;
  static constexpr bool all_meet = true;
  static std::size_t most_bytes(int) { return 0; }  // by Call::length: no rank knows all lengths

  ListsInSlots(Board& board, const Call& call)
      : board_(board),
        exchanged_(call, board.rank, board.size),
        longest_(BlockExchange(call, board.rank, board.size).longest()),
        sequence_(board.sequence.tag) {}

  void put_own_data() {
    Board::InlineSlot& mine = board_.inline_slot(sequence_, exchanged_.rank());
    std::memcpy(mine.data, &longest_, sizeof longest_);
    for (int rank = 0; rank < board_.size && !is_too_long(); ++rank) {
      const ConstVector given = exchanged_.block_to(rank);
      if (rank != exchanged_.rank() && given.count > 0)
        offbeat::copy(mine.data + place_of(rank), given.data, given.bytes());
    }
    mine.sequence.store(sequence_, std::memory_order_release);
  }
  [[nodiscard]] Reading reading_of(int rank) const {
    return {&board_.inline_slot(sequence_, rank),
            Board::InlineSlot::bytes_with(head + exchanged_.place_of_block_from(rank).bytes())};
  }
  // Never looks at this rank's own slot: on a board of two ranks, the other one may have used it again.
  [[nodiscard]] bool has_arrived(int rank) const {
    return rank == exchanged_.rank() ||
           board_.inline_slot(sequence_, rank).sequence.load(std::memory_order_acquire) == sequence_;
  }
  // Returns true if this rank has more than fits. The outcome is then clear, so it need not wait for the
  // others.
  [[nodiscard]] bool is_too_long() const { return longest_ > distance(); }
  [[nodiscard]] bool take_result() {
    if (longest_of_all(board_, longest_) > distance()) return false;
    for (int giver = 0; giver < board_.size; ++giver) {
      const Vector receipt = exchanged_.place_of_block_from(giver);
      const bool is_own = giver == exchanged_.rank();
      const std::byte* source = is_own
                                    ? exchanged_.block_to(giver).data
                                    : board_.inline_slot(sequence_, giver).data + place_of(exchanged_.rank());
      if (receipt.count > 0 && source != receipt.data) offbeat::copy(receipt.data, source, receipt.bytes());
    }
    return true;
  }

  // Returns the bytes of the longest block of all ranks; `longest` is that of this rank. The slots of all
  // must have come. They stay until this rank begins another collective.
  [[nodiscard]] static std::size_t longest_of_all(const Board& board, std::size_t longest) {
    for (int rank = 0; rank < board.size; ++rank) {
      if (rank == board.rank) continue;
      std::size_t other = 0;
      std::memcpy(&other, board.inline_slot(board.sequence.present, rank).data, sizeof other);
      longest = std::max(longest, other);
    }
    return longest;
  }

 private:
  static constexpr std::size_t head = sizeof(std::size_t);
  [[nodiscard]] std::size_t distance() const {
    return (BoardShape::inline_bytes - head) / static_cast<std::size_t>(board_.size);
  }
  [[nodiscard]] std::size_t place_of(int taker) const {
    return head + static_cast<std::size_t>(taker) * distance();
  }

  Board& board_;
  const BlockExchange exchanged_;
  const std::size_t longest_;  // of this rank's blocks; computed once, because it looks at each block
  const std::uint64_t sequence_;
};

// Waits for the slots of all ranks, which contain the lengths.
[[nodiscard]] Task all_slots_have_arrived(Board& board, const Call& call);

}  // namespace offbeat::direct
