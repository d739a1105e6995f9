// SPDX-License-Identifier: BSD-3-Clause
// Idea: each rank writes the number of the call beside its slot when it arrives, and looks for the numbers of
// the others. It runs on one node, on the board. No two ranks write to one cache line. More than 7 ranks
// look at groups of four, and groups of groups, if each rank has a core; otherwise at all others up to 16
// ranks, and along a tree on more (board/immediate_butterfly.hpp). Cost: after the last arrival one cache
// line transfer to each of the others. With groups three at each of log4(p) levels. Source: Mellor-Crummey
// and Scott 1991: their central counter, with a sequence number instead of the sense, and a word for each
// rank instead of the count. Hensgen et al. 1988: the dissemination barrier.
#include "collectives/barrier/barrier.hpp"
#include "collectives/board/immediate.hpp"
#include "collectives/board/immediate_butterfly.hpp"

namespace offbeat::barrier_algorithms {
namespace {

class BarrierInSlots {
 public:
  static constexpr int most_ranks = most_ranks_without_tree;
  static std::size_t most_bytes(int) { return 0; }
  static constexpr bool all_meet = true;

  BarrierInSlots(Board& board, const Call&) : board_(board), sequence_(board.sequence.tag) {}

  void put_own_data() {
    board_.inline_slot(sequence_, board_.rank).sequence.store(sequence_, std::memory_order_release);
  }
  [[nodiscard]] Reading reading_of(int rank) const {
    return {&board_.inline_slot(sequence_, rank), Board::InlineSlot::bytes_with(0)};
  }
  // Never looks at this rank's own slot: on a board of two ranks, the other one may have used it again.
  [[nodiscard]] bool has_arrived(int rank) const {
    return rank == board_.rank ||
           board_.inline_slot(sequence_, rank).sequence.load(std::memory_order_acquire) == sequence_;
  }
  [[nodiscard]] static const void* data(int) { return nullptr; }
  static void take_result(const void* const*) {}

 private:
  Board& board_;
  const std::uint64_t sequence_;
};

constexpr Immediate barrier_in_slots = [] {
  Immediate form = immediate<BarrierInSlots, &immediate_butterfly<Collective::barrier, BarrierInSlots>>;
  form.most_ranks = most_ranks_in_rank_order;
  return form;
}();

}  // namespace

const Algorithm arrival_counter{
    .name = "arrival_counter",
    .summary = "each rank shows that it has arrived, and looks for the others; ranks on one node",
    .cost = "a few cache lines after the last arrival",
    .serves = {Collective::barrier},
    .needs = {.board = OnBoard::one_node},
    .source = "Mellor-Crummey and Scott 1991",
    .immediate = &barrier_in_slots,
    .run = run_in_steps<ButterflyPass<Collective::barrier>>,
};

}  // namespace offbeat::barrier_algorithms
