// SPDX-License-Identifier: BSD-3-Clause
// Which rank gives which block to which rank in a call. Nothing here changes while the call runs.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>

#include "collectives/call.hpp"
#include "node/board_shape.hpp"

namespace offbeat::direct {

class BlockExchange {
 public:
  BlockExchange(const Call& call, int rank, int ranks) : call_(call), rank_(rank), ranks_(ranks) {}

  [[nodiscard]] bool gives(int rank) const { return roles_.gives(rank, call_.root); }
  [[nodiscard]] bool takes(int rank) const { return roles_.takes(rank, call_.root); }
  // Returns true if a block of this rank's input is a block of its own result, unchanged.
  [[nodiscard]] bool keeps_own_block() const {
    return gives(rank_) && takes(rank_) && !facts_of(call_.collective).has_operation;
  }
  [[nodiscard]] bool gives_others() const {
    return gives(rank_) && !(roles_.root_takes && rank_ == call_.root);
  }
  // Returns the block that this rank gives to `taker`.
  [[nodiscard]] ConstVector block_to(int taker) const {
    return roles_.is_personalised ? call_.input_blocks.block_of(call_.input, taker, ranks_) : call_.input;
  }
  // Returns the place of the block that `giver` gives to this rank. Not valid if blocks are combined.
  [[nodiscard]] Vector place_of_block_from(int giver) const {
    return roles_.root_gives ? call_.output : call_.output_blocks.block_of(call_.output, giver, ranks_);
  }
  // Total bytes over all ranks, estimated from this rank's sizes.
  [[nodiscard]] std::size_t estimated_total_bytes() const {
    if (roles_.root_takes) return 2 * call_.output.bytes();
    return static_cast<std::size_t>(ranks_) * (call_.input.bytes() + call_.output.bytes());
  }
  // Returns the elements of the longest block of all ranks. In an alltoallv the elements are bytes, and the
  // result covers only this rank's blocks.
  [[nodiscard]] std::size_t longest() const;
  // Returns the elements of the longest block from this rank or to it. If two ranks have swapped places, the
  // others put their blocks for this rank into its window.
  [[nodiscard]] std::size_t longest_own_block() const {
    const bool may_differ = call_.collective == Collective::alltoallv;
    return may_differ ? std::max(longest(), call_.output_blocks.longest(ranks_)) : longest();
  }

  [[nodiscard]] bool is_personalised() const { return roles_.is_personalised; }
  // Returns the number of pieces in a window: one for each taker, or one for all of them.
  [[nodiscard]] int pieces() const { return has_pieces() ? ranks_ - 1 : 1; }
  // Returns the index of the piece for `taker`. The piece of the rank after `giver` is the first one.
  [[nodiscard]] std::size_t piece_of(int giver, int taker) const {
    return has_pieces() ? static_cast<std::size_t>((taker - giver - 1 + ranks_) % ranks_) : 0;
  }
  // Returns the rank whose window, and maybe slot, has what `giver` gives to `taker`. If only the root knows
  // all lengths, the root and each other rank use those of the other rank.
  [[nodiscard]] int window_owner(int giver, int taker) const {
    return has_lists_at_root() && roles_.root_gives ? taker : giver;
  }
  // Returns true if only the root knows all lengths. Short blocks then have no part in the long form.
  [[nodiscard]] bool has_lists_at_root() const {
    return collectives_with_lists_at_root.contain(call_.collective);
  }
  // Returns true if such a block is too long for a slot, which also has its length.
  static constexpr std::size_t bytes_of_length = sizeof(std::uint64_t);
  [[nodiscard]] static constexpr bool is_past_slot(std::size_t bytes) {
    return bytes > BoardShape::inline_bytes - bytes_of_length;
  }
  // Returns how many elements of a block of `count` go through a window.
  [[nodiscard]] std::size_t count_in_window(std::size_t count) const {
    return has_lists_at_root() && !is_past_slot(count * call_.output.width) ? 0 : count;
  }
  // Returns true if no block goes to several ranks, and none is combined with others.
  [[nodiscard]] bool has_channels() const {
    return (roles_.is_personalised || roles_.root_takes) && !facts_of(call_.collective).has_operation;
  }
  // Returns true if every rank gives and takes.
  [[nodiscard]] bool every_rank_gives_and_takes() const { return !roles_.root_gives && !roles_.root_takes; }
  [[nodiscard]] const Call& call() const { return call_; }
  [[nodiscard]] int rank() const { return rank_; }
  [[nodiscard]] int ranks() const { return ranks_; }

 private:
  [[nodiscard]] bool has_pieces() const { return roles_.is_personalised && !has_lists_at_root(); }

  const Call& call_;
  const Roles roles_ = roles_of(call_.collective);
  const int rank_;
  const int ranks_;
};

}  // namespace offbeat::direct
