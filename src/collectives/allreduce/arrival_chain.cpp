// SPDX-License-Identifier: BSD-3-Clause
// Idea: each rank takes the partial result of the rank that arrived before it, adds its own data and passes
// it on. The last arrival has the result.
// Cost: 3n at memory speed after the last arrival: one pass and a copy. If all arrive together, the chunks
// flow through p ranks as through a pipeline.
// Order: the order of arrival, so the bits are equal on every rank but not in every run.
// Source: Alizadeh et al. 2022, algorithm 2. There the last arrival sends to the root, which broadcasts. Here
// every rank reads the window of the last arrival.
#include "collectives/allreduce/allreduce.hpp"
#include "collectives/board/board_round.hpp"

namespace offbeat::allreduce_algorithms {
namespace {

// Returns the word that names the rank at this place in the order of arrival.
Board::Word& arrival_word(const BoardRound& round, int position) {
  return round.board.round_word(round.tag, 1 + position);
}
// Returns the word that says that the partial result of all ranks up to `rank` is on the board.
Board::Word& partial_result_word(const Board::Step& step, int rank) {
  return BoardRound::node_phase_word(step, rank);
}

Task contribute(const BoardRound& round, UncollectedResults*) {
  const Endpoint& net = round.net;
  Board& board = round.board;
  const int position = co_await board.arrive(board.round_word(round.tag, 0));
  co_await board.announce(arrival_word(round, position), round.mark());

  int before = net.rank;
  if (position > 0) {
    const Board::Word& word = arrival_word(round, position - 1);
    Patience::Wait wait(board.patience);
    const auto has_arrived = [&] { return round.is_marked(word); };
    while (!has_arrived()) co_await board.pause(wait, has_arrived);
    before = round.holder(word);
  }
  const bool last = position == net.size - 1;
  for (std::size_t chunk = 0; chunk < round.chunks; ++chunk) {
    const Board::Step step = round.step(chunk);
    const Vector mine = round.chunk_on_board(net.rank, chunk);
    const ConstVector input = round.chunk_of(round.call.input, chunk);
    if (position == 0) {
      co_await net.put(mine, input);
    } else {
      Patience::Wait wait(board.patience);
      const auto is_there = [&] { return round.is_marked(partial_result_word(step, before)); };
      while (!is_there()) co_await board.pause(wait, is_there);
      const ConstVector theirs = round.chunk_on_board(before, chunk);
      co_await board.charge_fetch(before, nullptr, sizeof(Board::Word));
      co_await board.charge_fetch(before, theirs.data, theirs.bytes());
      Computation sum = net.reduce(*round.call.op, mine, theirs, input);
      sum.to_shared = true;
      co_await sum;
    }
    co_await board.announce(last ? BoardRound::result(step) : partial_result_word(step, net.rank),
                            round.mark());
  }
}

}  // namespace

const Algorithm arrival_chain{
    .name = "arrival_chain",
    .summary =
        "each arrival adds to the partial result of the one before; ranks on one node; bits differ from run "
        "to run",
    .cost = "3n at memory speed after the last arrival",
    .serves = {Collective::allreduce},
    .needs = {.board = OnBoard::one_node},
    .source = "Alizadeh et al. 2022, algorithm 2",
    .same_bits_every_run = false,
    .node_phase = contribute,
    .run = run_on_one_node,
};

}  // namespace offbeat::allreduce_algorithms
