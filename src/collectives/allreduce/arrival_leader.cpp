// SPDX-License-Identifier: BSD-3-Clause
// Idea: the first rank to arrive is the leader. The others put their chunks on the board. The leader combines
// what is ready, several operands in one pass, and puts the result on the board for all.
// Cost: 3n at memory speed after the last arrival: its copy, one pass of the leader, and a copy of the
// result. If all arrive together, the leader combines (p-1)n alone.
// Order: the order of arrival, so the bits are equal on every rank but not in every run.
// Source: Alizadeh et al. 2022, algorithm 1. An arrival counter replaces their lock, and flags carry the
// round.
#include "collectives/allreduce/allreduce.hpp"
#include "collectives/board/board_round.hpp"

namespace offbeat::allreduce_algorithms {
namespace {

// Returns the word that says that the chunk of `rank` is on the board.
Board::Word& contribution_word(const Board::Step& step, int rank) {
  return BoardRound::node_phase_word(step, rank);
}

constexpr std::size_t most_operands = Computation::most_operands;

// Combines whatever chunks are there, of any rank. So a late rank does not keep the leader from the chunks of
// the others.
Task combine_as_leader(const BoardRound& round) {
  const Endpoint& net = round.net;
  const auto ranks = static_cast<std::size_t>(net.size);
  // How many chunks of each rank are combined, and how many ranks are in each chunk.
  const Scratch progress_memory(true, ranks + round.chunks, sizeof(std::size_t));
  auto* combined = reinterpret_cast<std::size_t*>(progress_memory.vector().data);
  std::size_t* ranks_in = combined + ranks;
  std::fill_n(combined, ranks, std::size_t{0});
  std::fill_n(ranks_in, round.chunks, std::size_t{1});  // the leader itself

  std::size_t complete = 0;
  while (complete < round.chunks) {
    Patience::Wait wait(round.board.patience);  // for the next chunks of any rank
    for (bool found = false; !found;) {
      for (std::size_t chunk = complete; chunk < round.chunks; ++chunk) {
        const Board::Step step = round.step(chunk);
        const Vector sum = round.chunk_on_board(net.rank, chunk);
        const ConstVector start =
            ranks_in[chunk] == 1 ? round.chunk_of(round.call.input, chunk) : ConstVector(sum);
        std::array<const void*, most_operands> operands{start.data};
        std::size_t ready = 1;
        for (int rank = 0; rank < net.size && ready < most_operands; ++rank) {
          const auto index = static_cast<std::size_t>(rank);
          if (rank == net.rank || combined[index] != chunk || !round.is_marked(contribution_word(step, rank)))
            continue;
          const ConstVector theirs = round.chunk_on_board(rank, chunk);
          co_await round.board.charge_fetch(rank, nullptr, sizeof(Board::Word));
          co_await round.board.charge_fetch(rank, theirs.data, theirs.bytes());
          operands[ready++] = theirs.data;
          ++combined[index];
        }
        if (ready == 1) continue;
        found = true;
        Computation partial = net.reduce(*round.call.op, sum, operands, ready);
        partial.to_shared = true;
        co_await partial;
        ranks_in[chunk] += ready - 1;
      }
      if (!found) co_await round.board.pause(wait);
    }
    while (complete < round.chunks && ranks_in[complete] == ranks) {
      co_await round.board.announce(BoardRound::result(round.step(complete++)), round.mark());
    }
  }
}

Task contribute(const BoardRound& round, UncollectedResults*) {
  if (co_await round.board.arrive(round.board.round_word(round.tag, 0)) == 0) {
    co_await combine_as_leader(round);
  } else {
    for (std::size_t chunk = 0; chunk < round.chunks; ++chunk) {
      co_await round.net.put(round.chunk_on_board(round.net.rank, chunk),
                             round.chunk_of(round.call.input, chunk));
      co_await round.board.announce(contribution_word(round.step(chunk), round.net.rank), round.mark());
    }
  }
}

}  // namespace

const Algorithm arrival_leader{
    .name = "arrival_leader",
    .summary =
        "the first rank to arrive combines what is ready; ranks on one node; bits differ from run to run",
    .cost = "3n at memory speed after the last arrival; (p-1)n by one rank if all arrive together",
    .serves = {Collective::allreduce},
    .needs = {.board = OnBoard::one_node},
    .source = "Alizadeh et al. 2022, algorithm 1",
    .same_bits_every_run = false,
    .node_phase = contribute,
    .run = run_on_one_node,
};

}  // namespace offbeat::allreduce_algorithms
