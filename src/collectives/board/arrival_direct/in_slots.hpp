// SPDX-License-Identifier: BSD-3-Clause
// The immediate form of arrival_direct: a rank's slot holds the blocks that it gives, one after the other.
#pragma once

#include "base/copy.hpp"
#include "collectives/board/arrival_direct/block_exchange.hpp"
#include "collectives/board/groups_of_four.hpp"
#include "collectives/board/round_beginning.hpp"
#include "collectives/board/waits.hpp"
#include "node/board.hpp"

namespace offbeat::direct {

template <Collective collective>
class InSlots {
 public:
  // In an alltoall each rank needs something from every other one, so no tree reads less.
  static constexpr int most_ranks =
      collective == Collective::alltoall ? Board::most_ranks : most_ranks_without_tree;
  static constexpr bool all_meet = !facts_of(collective).has_root;
  static std::size_t most_bytes(int ranks) {
    const auto p = static_cast<std::size_t>(ranks);
    switch (collective) {
      case Collective::reduce:  // beyond this arrival_tree is faster
        return 2 * BoardShape::inline_bytes / p;
      case Collective::scatter:
      case Collective::alltoall:
      case Collective::reduce_scatter_block:
        return BoardShape::inline_bytes / p;
      default:
        return BoardShape::inline_bytes;
    }
  }

  static std::uint64_t turns(const Board& board, const Call& call) {
    return takes_short_slots(board, call) ? static_cast<std::uint64_t>(board.shape().short_slots()) : 2;
  }

  InSlots(Board& board, const Call& call)
      : board_(board),
        call_(call),
        rank_(board.rank),
        sequence_(board.sequence.tag),
        takes_short_slots_(takes_short_slots(board, call)) {}

  // A rank puts nothing if no other rank takes it. On a board of two ranks, the other one may already use
  // this slot for the next call.
  void put_own_data() {
    if (known_roles.root_gives ? rank_ != call_.root : known_roles.root_takes && rank_ == call_.root) return;
    if (call_.input.data != nullptr) copy_to_shared(data_of(rank_), call_.input.data, call_.input.bytes());
    sequence_of(rank_).store(sequence_, std::memory_order_release);
  }
  [[nodiscard]] Reading reading_of(int rank) const {
    if (!takes(rank_) || !gives(rank)) return {};
    const std::size_t bytes =
        facts_of(collective).has_operation
            ? call_.output.bytes()
            : BlockExchange(call_, rank_, board_.size).place_of_block_from(rank).bytes();
    return {&sequence_of(rank), Board::InlineSlot::bytes_with(bytes) + (offset() > 0 ? BoardShape::line : 0)};
  }
  // Never looks at this rank's own slot: on a board of two ranks, the other one may have used it again.
  [[nodiscard]] bool has_arrived(int rank) const {
    return rank == rank_ || !takes(rank_) || !gives(rank) ||
           sequence_of(rank).load(std::memory_order_acquire) == sequence_;
  }
  [[nodiscard]] const void* data(int rank) const {
    const std::byte* all = rank == rank_ ? call_.input.data : data_of(rank);
    return all == nullptr ? nullptr : all + offset();
  }
  void take_result(const void* const* data) requires(facts_of(collective).has_operation) {
    if (!takes(rank_) || call_.output.data == nullptr) return;
    if (collective == Collective::reduce && board_.size > most_ranks_in_rank_order) {
      // The root's own slot is free: all others have begun this call, so they have read what was there.
      combine_in_groups(*call_.op, call_.output, data, board_.size,
                        board_.inline_slot(sequence_, rank_).data);
    } else {
      (*call_.op)(call_.output.data, data, static_cast<std::size_t>(board_.size), call_.output.count);
    }
  }
  [[nodiscard]] bool take_result() requires(!facts_of(collective).has_operation) {
    if (!takes(rank_) || call_.output.data == nullptr) return true;
    for (int giver = 0; giver < board_.size; ++giver) {
      if (!gives(giver)) continue;
      const Vector receipt = BlockExchange(call_, rank_, board_.size).place_of_block_from(giver);
      const void* source = data(giver);
      if (source != receipt.data && receipt.count > 0) offbeat::copy(receipt.data, source, receipt.bytes());
    }
    return true;
  }

 private:
  static constexpr Roles known_roles = roles_of(collective);
  [[nodiscard]] static bool takes_short_slots(const Board& board, const Call& call) {
    constexpr bool root_has_all_blocks = known_roles.root_gives && known_roles.is_personalised;
    const auto blocks = root_has_all_blocks ? static_cast<std::size_t>(board.size) : 1;
    return !all_meet && board.shape().short_slots() > 0 &&
           call.length(board.size) * blocks <= BoardShape::short_bytes;
  }
  [[nodiscard]] Board::Word& sequence_of(int rank) const {
    return takes_short_slots_ ? board_.short_slot(sequence_, rank).sequence
                              : board_.inline_slot(sequence_, rank).sequence;
  }
  [[nodiscard]] std::byte* data_of(int rank) const {
    return takes_short_slots_ ? board_.short_slot(sequence_, rank).data
                              : board_.inline_slot(sequence_, rank).data;
  }
  [[nodiscard]] bool gives(int rank) const { return known_roles.gives(rank, call_.root); }
  [[nodiscard]] bool takes(int rank) const { return known_roles.takes(rank, call_.root); }
  // Returns the offset of this rank's block in the data of another rank.
  [[nodiscard]] std::size_t offset() const {
    if constexpr (!known_roles.is_personalised) return 0;
    if (call_.input_blocks.begins != nullptr)
      return static_cast<std::size_t>(call_.input_blocks.begins[rank_]) * call_.input.width;
    return static_cast<std::size_t>(rank_) * block_bytes();
  }
  [[nodiscard]] std::size_t block_bytes() const {
    return call_.output.bytes() /
           (collective == Collective::alltoall ? static_cast<std::size_t>(board_.size) : 1);
  }

  Board& board_;
  const Call& call_;
  const int rank_;
  const std::uint64_t sequence_;
  const bool takes_short_slots_;
};

}  // namespace offbeat::direct
