// SPDX-License-Identifier: BSD-3-Clause
// Direct exchange on the board: each rank puts what it gives into its own window, and takes what it needs
// from the windows of the others, from each as soon as it is there. For every collective in which blocks go
// from rank to rank, among the ranks of one node.
//
//     allgather   window of 0: A       rank 1 and 2 copy A
//                 window of 1: B       rank 0 and 2 copy B
//     alltoall    window of 0: A1 A2   rank 1 copies A1, rank 2 copies A2
//
// A rank leaves when it has put and taken everything; it waits for nobody else, unless its next call needs a
// window that others still read. In a reduce-scatter it combines the pieces of its block in rank order, so
// the bits never depend on arrival.
//
// Where no block goes to several ranks, a giver's window has a channel for each of its takers, and chunks go
// through each as fast as these two ranks come along. Other long vectors go in rounds that fit the windows:
// in a round a rank's window has one piece for all takers, or a piece of each block to be combined, cut into
// chunks that are announced one by one.
//
// Cost of the last arrival: its own data once into its window, and once out of it by the others; what it
// takes.
#pragma once

#include <algorithm>
#include <cstring>

#include "base/copy.hpp"
#include "collectives/algorithm.hpp"
#include "collectives/board/bruck_in_slots.hpp"
#include "collectives/board/immediate.hpp"
#include "collectives/board/tree_form.hpp"

namespace offbeat::direct {

// What goes from whom to whom in a call.
class Exchange {
 public:
  Exchange(const Call& call, int rank, int ranks) : call_(call), rank_(rank), ranks_(ranks) {}

  [[nodiscard]] bool gives(int rank) const { return roles_.gives(rank, call_.root); }
  [[nodiscard]] bool takes(int rank) const { return roles_.takes(rank, call_.root); }
  // A block of its own result, as it is.
  [[nodiscard]] bool gives_itself() const {
    return gives(rank_) && takes(rank_) && !facts(call_.collective).has_operation;
  }
  [[nodiscard]] bool gives_others() const {
    return gives(rank_) && !(roles_.root_takes && rank_ == call_.root);
  }
  // From this rank to `taker`.
  [[nodiscard]] ConstVector gift(int taker) const {
    return roles_.is_personal ? call_.input_blocks.of(call_.input, taker, ranks_) : call_.input;
  }
  // From `giver` to this rank; not where pieces are combined.
  [[nodiscard]] Vector receipt(int giver) const {
    return roles_.root_gives ? call_.output : call_.output_blocks.of(call_.output, giver, ranks_);
  }
  // Total bytes over all ranks, estimated from this rank's sizes.
  [[nodiscard]] std::size_t bytes_of_all() const {
    if (roles_.root_takes) return 2 * call_.output.bytes();
    return static_cast<std::size_t>(ranks_) * (call_.input.bytes() + call_.output.bytes());
  }
  // The elements of the longest gift of all ranks. An alltoallv has bytes for elements, and counts this
  // rank's gifts only.
  [[nodiscard]] std::size_t longest() const;
  // The elements of the longest gift from this rank or to it. When two ranks have swapped places, the others
  // put what they give this rank into its window.
  [[nodiscard]] std::size_t longest_here() const {
    const bool may_differ = call_.collective == Collective::alltoallv;
    return may_differ ? std::max(longest(), call_.output_blocks.longest(ranks_)) : longest();
  }

  [[nodiscard]] bool is_personal() const { return roles_.is_personal; }
  // In the window of a giver: one for each taker, or one for all of them.
  [[nodiscard]] int pieces() const { return roles_.is_personal ? ranks_ - 1 : 1; }
  // The one for `taker`; the first is that of the next rank.
  [[nodiscard]] std::size_t piece_of(int giver, int taker) const {
    return roles_.is_personal ? static_cast<std::size_t>((taker - giver - 1 + ranks_) % ranks_) : 0;
  }
  // No block goes to several ranks, and none is combined with others.
  [[nodiscard]] bool has_channels() const {
    return (roles_.is_personal || roles_.root_takes) && !facts(call_.collective).has_operation;
  }
  // Every rank gives and takes.
  [[nodiscard]] bool is_mutual() const { return !roles_.root_gives && !roles_.root_takes; }
  [[nodiscard]] const Call& call() const { return call_; }
  [[nodiscard]] int rank() const { return rank_; }
  [[nodiscard]] int ranks() const { return ranks_; }

 private:
  const Call& call_;
  const Roles roles_ = roles(call_.collective);
  const int rank_;
  const int ranks_;
};

// Any length; every collective in which a block goes from rank to rank, so not reduce and allreduce. A window
// has room for an element for each rank.
[[nodiscard]] Task run(Endpoint net, Call call, const Expression& self);
// See Algorithm::lease.
[[nodiscard]] std::size_t lease(const Call& call, int rank, int ranks);

// The immediate form: what a rank gives stands in its slot, its blocks one after the other.
template <Collective collective>
class Small {
 public:
  static constexpr int most_ranks = few_ranks;
  static constexpr bool all_meet = !facts(collective).has_root;
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

  Small(Board& board, const Call& call)
      : board_(board), call_(call), rank_(board.rank), sequence_(board.sequence.present) {}

  // Nothing where nobody takes it: of two ranks, the other one may use this slot for the next call already.
  void give() {
    if (known.root_gives ? rank_ != call_.root : known.root_takes && rank_ == call_.root) return;
    Board::InlineSlot& mine = board_.inline_slot(sequence_, rank_);
    if (call_.input.data != nullptr) copy_to_shared(mine.data, call_.input.data, call_.input.bytes());
    mine.sequence.store(sequence_, std::memory_order_release);
  }
  [[nodiscard]] std::size_t reads(int rank) const {
    if (!takes(rank_) || !gives(rank)) return 0;
    const std::size_t bytes = facts(collective).has_operation
                                  ? call_.output.bytes()
                                  : Exchange(call_, rank_, board_.size).receipt(rank).bytes();
    return Board::InlineSlot::bytes_with(bytes);
  }
  // Not this rank's own slot, which the other one of two may have used again.
  [[nodiscard]] bool has_come(int rank) const {
    return rank == rank_ || !takes(rank_) || !gives(rank) ||
           board_.inline_slot(sequence_, rank).sequence.load(std::memory_order_acquire) == sequence_;
  }
  [[nodiscard]] const void* data(int rank) const {
    const std::byte* all = rank == rank_ ? call_.input.data : board_.inline_slot(sequence_, rank).data;
    return all == nullptr ? nullptr : all + offset();
  }
  void take(const void* const* data) {
    if (!takes(rank_) || call_.output.data == nullptr) return;
    if constexpr (facts(collective).has_operation) {
      (*call_.op)(call_.output.data, data, static_cast<std::size_t>(board_.size), call_.output.count);
    } else {
      for (int giver = 0; giver < board_.size; ++giver) {
        if (!gives(giver)) continue;
        const Vector receipt = Exchange(call_, rank_, board_.size).receipt(giver);
        const void* source = data[giver];
        if (source != receipt.data && receipt.count > 0) offbeat::copy(receipt.data, source, receipt.bytes());
      }
    }
  }

 private:
  static constexpr Roles known = roles(collective);
  [[nodiscard]] bool gives(int rank) const { return known.gives(rank, call_.root); }
  [[nodiscard]] bool takes(int rank) const { return known.takes(rank, call_.root); }
  // Of this rank's block in what another one gives.
  [[nodiscard]] std::size_t offset() const {
    if constexpr (!known.is_personal) return 0;
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
};

// The immediate form of an alltoallv, with which the long form begins, too: a slot has the bytes of the
// rank's longest block and then, at equal distances, the blocks for all others, if the longest one fits.
class SmallLists {
 public:
  static constexpr int most_ranks = Board::most_ranks;
  static constexpr bool all_meet = true;
  static std::size_t most_bytes(int) { return 0; }  // Call::length, as no rank knows the lengths of all

  SmallLists(Board& board, const Call& call)
      : board_(board),
        exchange_(call, board.rank, board.size),
        longest_(exchange_.longest()),
        sequence_(board.sequence.present) {}

  void give() {
    Board::InlineSlot& mine = board_.inline_slot(sequence_, exchange_.rank());
    std::memcpy(mine.data, &longest_, sizeof longest_);
    for (int rank = 0; rank < board_.size && !is_too_long(); ++rank) {
      const ConstVector gift = exchange_.gift(rank);
      if (rank != exchange_.rank() && gift.count > 0)
        offbeat::copy(mine.data + place_of(rank), gift.data, gift.bytes());
    }
    mine.sequence.store(sequence_, std::memory_order_release);
  }
  [[nodiscard]] std::size_t reads(int rank) const {
    return Board::InlineSlot::bytes_with(head + exchange_.receipt(rank).bytes());
  }
  // Not this rank's own slot, which the other one of two may have used again.
  [[nodiscard]] bool has_come(int rank) const {
    return rank == exchange_.rank() ||
           board_.inline_slot(sequence_, rank).sequence.load(std::memory_order_acquire) == sequence_;
  }
  // Where this rank has more than fits it need not wait for the others to know that.
  [[nodiscard]] bool is_too_long() const { return longest_ > distance(); }
  [[nodiscard]] bool take() {
    if (longest_of_all(board_, exchange_) > distance()) return false;
    for (int giver = 0; giver < board_.size; ++giver) {
      const Vector receipt = exchange_.receipt(giver);
      const bool is_own = giver == exchange_.rank();
      const std::byte* source = is_own
                                    ? exchange_.gift(giver).data
                                    : board_.inline_slot(sequence_, giver).data + place_of(exchange_.rank());
      if (receipt.count > 0 && source != receipt.data) offbeat::copy(receipt.data, source, receipt.bytes());
    }
    return true;
  }

  // The bytes of the longest block of all ranks, when their slots have come: until this rank begins another
  // collective, they stay.
  [[nodiscard]] static std::size_t longest_of_all(const Board& board, const Exchange& exchange) {
    std::size_t longest = exchange.longest();
    for (int rank = 0; rank < board.size; ++rank) {
      if (rank == exchange.rank()) continue;
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
  const Exchange exchange_;
  const std::size_t longest_;  // of this rank's gifts: found once, as it takes a look at each
  const std::uint64_t sequence_;
};

// The immediate form for one collective.
template <Collective collective>
[[nodiscard]] constexpr const Immediate* immediate_of() {
  constexpr bool has_tree = collective == Collective::bcast || collective == Collective::gather ||
                            collective == Collective::scatter;
  if constexpr (collective == Collective::alltoallv) {
    return &immediate<SmallLists>;
  } else if constexpr (collective == Collective::allgather) {
    return &immediate<Small<collective>, &allgather_algorithms::bruck_in_slots>;
  } else if constexpr (has_tree) {
    return &immediate<Small<collective>, for_many_ranks<collective>>;
  } else {
    return &immediate<Small<collective>>;
  }
}

// arrival_direct for one collective.
template <Collective collective>
[[nodiscard]] constexpr Algorithm serving() {
  return {
      .name = "arrival_direct",
      .summary = "through windows, each rank taking what it needs as soon as it is there; ranks on one node",
      .cost = "n bytes into a window and out of it, at memory speed, after the last arrival",
      .serves = {collective},
      .needs = {.board = OnBoard::one_node},
      .source = "offbeat",
      .immediate = immediate_of<collective>(),
      .lease = lease,
      .run = run,
  };
}

}  // namespace offbeat::direct
