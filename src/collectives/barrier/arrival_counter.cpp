// SPDX-License-Identifier: BSD-3-Clause
// Arrival counter: each rank counts itself as it arrives, and the last one lets all go. For ranks on one node,
// through the board.
//
// Up to 16 ranks each shows that it is there beside its slot and looks for the others: nobody writes to a line
// that another one writes to.
//
// Cost of the last arrival: the transfer of a cache line, and of one to each of the others.
// Source: the central barrier of Mellor-Crummey and Scott 1991, where the number of the round takes the place
// of the sense.
#include "collectives/barrier/barrier.hpp"
#include "collectives/board_rounds.hpp"
#include "collectives/immediate.hpp"

namespace offbeat::barrier_algorithms {
namespace {

Task run(Endpoint net, Call call, const Expression&) {
  Board& board = *net.board();
  board.round.next(meetings.contain(call.collective));
  if (!board.may_begin(board.round)) co_await begin_round(board);
  const std::uint64_t round = board.round.present;
  Board::Word& is_over = board.round_word(round, 1);
  const bool is_last = co_await board.arrive(board.round_word(round, 0)) == net.size - 1;
  if (is_last) {
    co_await board.announce(is_over, {round, net.rank});
    co_return;
  }
  board.contributed(round);
  Patience::Wait wait(board.patience);
  while (Board::Mark(is_over.load(std::memory_order_acquire)).round != round) co_await board.pause(wait);
}

class Shown {
 public:
  static constexpr int most_ranks = most_immediate_ranks;
  static constexpr std::size_t most_bytes_of_all = 0;
  static constexpr bool all_meet = true;

  Shown(Board& board, const Call&) : board_(board), sequence_(board.sequence.present) {}

  void give() {
    board_.inline_slot(sequence_, board_.rank).sequence.store(sequence_, std::memory_order_release);
  }
  // Not this rank's own slot, which the other one of two may have used again.
  [[nodiscard]] bool has_come(int rank) const {
    return rank == board_.rank ||
           board_.inline_slot(sequence_, rank).sequence.load(std::memory_order_acquire) == sequence_;
  }
  [[nodiscard]] static const void* data(int) { return nullptr; }
  static void take(const void* const*) {}

 private:
  Board& board_;
  const std::uint64_t sequence_;
};

}  // namespace

const Algorithm arrival_counter{
    .name = "arrival_counter",
    .summary = "each rank counts itself, the last one lets all go; ranks on one node",
    .cost = "a few cache lines after the last arrival",
    .serves = {Collective::barrier},
    .needs = {.board = OnBoard::one_node},
    .source = "Mellor-Crummey and Scott 1991",
    .immediate = &immediate<Shown>,
    .run = run,
};

}  // namespace offbeat::barrier_algorithms
