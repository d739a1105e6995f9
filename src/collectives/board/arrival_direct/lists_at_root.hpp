// SPDX-License-Identifier: BSD-3-Clause
// The immediate form of gatherv and scatterv; the long form begins with it, too. Only the root has the
// lengths of all blocks, so no rank decides by a length that the others may not know.
//
// The root and each other rank have a slot for their block, and a window for one that is longer than a slot.
// The giver writes the length and the block into the slot and leaves. The taker may have room for more, as in
// all MPIs: only the giver's length counts.
//
// A call counts as a round in windows on every rank, whether this rank needs a window or not. So the numbers
// of rounds stay equal.
#pragma once

#include <algorithm>
#include <cstring>

#include "base/copy.hpp"
#include "collectives/board/arrival_direct/block_exchange.hpp"
#include "collectives/board/waits.hpp"
#include "node/board.hpp"

namespace offbeat::direct {

// Ends a call in which `giver` gives more than its taker has room for.
[[noreturn]] void throw_truncation(Collective collective, int giver, int taker, std::uint64_t given,
                                   std::uint64_t taken);

class ListsAtRoot {
 public:
  static constexpr int most_ranks = Board::most_ranks;
  static constexpr bool all_meet = false;
  static constexpr bool may_use_windows = true;
  static std::size_t most_bytes(int) { return 0; }  // by Call::length: no rank knows all lengths

  // A block for which this rank writes to an inline slot must wait until that slot is free. All others go to
  // short slots, if there are some.
  static std::uint64_t turns(const Board& board, const Call& call) {
    if (board.shape().short_slots() == 0) return 2;
    const BlockExchange exchanged(call, board.rank, board.size);
    for (int taker = 0; taker < board.size && exchanged.gives_others(); ++taker) {
      const bool is_given = taker != board.rank && exchanged.takes(taker);
      const std::size_t bytes = is_given ? exchanged.block_to(taker).bytes() : 0;
      if (bytes > BoardShape::short_bytes - head && !exchanged.is_past_slot(bytes)) return 2;
    }
    return static_cast<std::uint64_t>(board.shape().short_slots());
  }

  ListsAtRoot(Board& board, const Call& call)
      : board_(board),
        call_(call),
        exchanged_(call, board.rank, board.size),
        sequence_(board.sequence.tag),
        has_short_slots_(board.shape().short_slots() > 0) {}

  void put_own_data() {
    begin_round_without_waiting();
    for (int giver = 0; giver < board_.size && exchanged_.takes(board_.rank); ++giver) {
      if (is_awaited(giver) && exchanged_.is_past_slot(exchanged_.place_of_block_from(giver).bytes()))
        is_too_long_ = true;
    }
    for (int taker = 0; taker < board_.size && exchanged_.gives_others(); ++taker) {
      if (taker == board_.rank || !exchanged_.takes(taker)) continue;
      const ConstVector given = exchanged_.block_to(taker);
      const std::uint64_t bytes = given.bytes();
      const Slot slot = slot_of(board_.rank, taker);
      std::memcpy(slot.data, &bytes, sizeof bytes);
      if (exchanged_.is_past_slot(bytes)) {
        is_too_long_ = true;
      } else if (bytes > 0 && given.data != nullptr) {
        copy_to_shared(place_in(slot, board_.rank, taker, bytes), given.data, bytes);
      }
      slot.sequence.store(sequence_, std::memory_order_release);
    }
    // This rank copies its own block now, because others may not have arrived yet.
    if (!exchanged_.keeps_own_block()) return;
    const ConstVector own = exchanged_.block_to(board_.rank);
    const Vector place = exchanged_.place_of_block_from(board_.rank);
    const std::size_t bytes = std::min(own.bytes(), place.bytes());
    if (own.data != nullptr && place.data != nullptr && own.data != place.data && bytes > 0)
      offbeat::copy(place.data, own.data, bytes);
  }
  [[nodiscard]] Reading reading_of(int giver) const {
    if (!is_awaited(giver)) return {};
    const std::size_t bytes = exchanged_.place_of_block_from(giver).bytes();
    return {&slot_of(giver, board_.rank).sequence,
            Board::InlineSlot::bytes_with(head + (exchanged_.is_past_slot(bytes) ? 0 : bytes))};
  }
  [[nodiscard]] bool has_arrived(int giver) const {
    return !is_awaited(giver) ||
           slot_of(giver, board_.rank).sequence.load(std::memory_order_acquire) == sequence_;
  }
  // Returns true if this rank gives or takes a block that is too long for a slot. The long form then takes
  // from the slots, too, because a late rank must not delay the blocks of others.
  [[nodiscard]] bool is_too_long() const { return is_too_long_; }
  [[nodiscard]] bool take_result() {
    for (int giver = 0; giver < board_.size; ++giver) {
      if (is_awaited(giver)) take_from(giver);
    }
    return true;
  }
  // Takes the block of a rank that has arrived, and returns its length. If the block is too long for a slot,
  // only its length is there.
  std::size_t take_from(int giver) const {
    const Vector receipt = exchanged_.place_of_block_from(giver);
    const Slot slot = slot_of(giver, board_.rank);
    std::uint64_t given = 0;
    std::memcpy(&given, slot.data, sizeof given);
    if (given > receipt.bytes())
      throw_truncation(call_.collective, giver, board_.rank, given, receipt.bytes());
    if (given > 0 && !exchanged_.is_past_slot(given) && receipt.data != nullptr)
      offbeat::copy(receipt.data, place_in(slot, giver, board_.rank, given), given);
    return given;
  }

 private:
  static constexpr std::size_t head = BlockExchange::bytes_of_length;
  struct Slot {
    Board::Word& sequence;
    std::byte* data;
  };
  // Ranks that wait for the end of an earlier round look at this sign. This rank has ended all of them.
  void begin_round_without_waiting() {
    board_.round.next(call_.collective, false);
    const Board::Mark begun(board_.round.present, board_.rank);
    board_.signs(board_.rank).round.store(begun.word(), std::memory_order_release);
  }
  [[nodiscard]] bool is_awaited(int giver) const {
    return giver != board_.rank && exchanged_.gives(giver) && exchanged_.takes(board_.rank);
  }
  // On a board of two ranks the slots are swapped each time, so that a giver may write to its own slot only.
  [[nodiscard]] int owner(int giver, int taker) const {
    return board_.size == 2 ? giver : exchanged_.window_owner(giver, taker);
  }
  [[nodiscard]] Slot slot_of(int giver, int taker) const {
    if (!has_short_slots_) {
      Board::InlineSlot& slot = board_.inline_slot(sequence_, owner(giver, taker));
      return {slot.sequence, slot.data};
    }
    Board::ShortSlot& slot = board_.short_slot(sequence_, owner(giver, taker));
    return {slot.sequence, slot.data};
  }
  [[nodiscard]] std::byte* place_in(const Slot& slot, int giver, int taker, std::size_t bytes) const {
    const bool fits = !has_short_slots_ || bytes <= BoardShape::short_bytes - head;
    return (fits ? slot.data : board_.inline_slot(sequence_, owner(giver, taker)).data) + head;
  }

  Board& board_;
  const Call& call_;
  const BlockExchange exchanged_;
  const std::uint64_t sequence_;
  const bool has_short_slots_;
  bool is_too_long_ = false;
};

}  // namespace offbeat::direct
