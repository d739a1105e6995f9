// SPDX-License-Identifier: BSD-3-Clause
// Idea: a short allreduce on the board. Every rank writes its vector into its slot, reads those of the others
// as they come, and combines all in rank order. If the data fit in a few lines, combining them is cheaper
// than telling others the result. The last arrival is followed by one cache line transfer. More than 7 ranks
// combine in groups of four, and groups of groups (board/immediate_butterfly.hpp).
#pragma once

#include "base/copy.hpp"
#include "collectives/board/groups_of_four.hpp"
#include "collectives/board/immediate.hpp"
#include "collectives/board/immediate_butterfly.hpp"
#include "collectives/board/tree_form.hpp"

namespace offbeat::allreduce_algorithms {

class ShortAllreduce {
 public:
  // Every rank reads the vectors of all ranks, so beyond these limits other forms are faster
  // (benchmark_board).
  static constexpr int most_ranks = most_ranks_without_tree;
  static std::size_t most_bytes(int ranks) {
    return 2 * BoardShape::inline_bytes / static_cast<std::size_t>(ranks);
  }
  static constexpr bool all_meet = true;

  ShortAllreduce(Board& board, const Call& call)
      : board_(board), call_(call), rank_(board.rank), sequence_(board.sequence.tag) {}

  void put_own_data() {
    Board::InlineSlot& mine = board_.inline_slot(sequence_, rank_);
    if (call_.input.data != nullptr) copy_to_shared(mine.data, call_.input.data, call_.input.bytes());
    mine.sequence.store(sequence_, std::memory_order_release);
  }
  [[nodiscard]] Reading reading_of(int rank) const {
    return {&board_.inline_slot(sequence_, rank), Board::InlineSlot::bytes_with(call_.input.bytes())};
  }
  // Never looks at this rank's own slot: on a board of two ranks, the other one may have used it again.
  [[nodiscard]] bool has_arrived(int rank) const {
    return rank == rank_ ||
           board_.inline_slot(sequence_, rank).sequence.load(std::memory_order_acquire) == sequence_;
  }
  [[nodiscard]] const void* data(int rank) const {
    return rank == rank_ ? static_cast<const void*>(call_.input.data)
                         : board_.inline_slot(sequence_, rank).data;
  }
  void take_result(const void* const* data) {
    if (call_.output.data == nullptr) return;
    if (board_.size <= most_ranks_in_rank_order) {
      (*call_.op)(call_.output.data, data, static_cast<std::size_t>(board_.size), call_.output.count);
    } else {
      // Beside this rank's own vector there is room in its slot.
      std::byte* const room = board_.inline_slot(sequence_, rank_).data + aligned(call_.input.bytes());
      combine_in_groups(*call_.op, call_.output, data, board_.size, room);
    }
  }

 private:
  Board& board_;
  const Call& call_;
  const int rank_;
  const std::uint64_t sequence_;
};

// From 8 ranks on, every call takes the form `on_many_ranks`; on 5 to 7 ranks, calls that are too long for
// ShortAllreduce do. On 9 to 16 ranks it takes 0.4 to 0.8 of ShortAllreduce's time. From 1 to 4 KiB on 5 to
// 16 ranks it takes 0.3 to 0.9 of the windows' time (`offbeat simulate --machine M --nodes 1 --ppn P
// --algorithms arrival_tree`, M = rome, genoa, sapphire_rapids, grace).
inline constexpr Immediate on_many_ranks =
    immediate_butterfly<Collective::allreduce, ShortAllreduce, form_for_many_ranks<Collective::allreduce>>;
inline constexpr const Immediate* short_allreduce =
    &immediate_and_longer<ShortAllreduce, &on_many_ranks, most_ranks_in_rank_order>;

}  // namespace offbeat::allreduce_algorithms
