// SPDX-License-Identifier: BSD-3-Clause
// Arrival tree: a reduction tree fixed by rank, with the work floating. For ranks on one node, through the board.
//
// The message goes in chunks. For each chunk a rank climbs from its own leaf: where the neighbouring group of ranks is not
// ready it leaves its partial result on the board and goes on with the next chunk; where it is, it combines the two and
// climbs on. So whoever comes second does the work, and the last arrival finds every other group combined. The
// two halves of the tree are combined by every rank for itself, straight into its output: this costs no
// more than copying the result.
//
//                 (0 1 2 3)           by every rank
//            (0 1)         (2 3)      by the second of each pair to get there, chunk by chunk
//           0     1       2     3
//
// Cost of the last arrival: about n bytes for each of log2(p) levels, at memory speed; balanced: 3n.
// Order: the tree, whoever comes first: the bits never depend on arrival. Powers of two: that of recursive_doubling.
// Source: ours; the idea of arrival order from Alizadeh et al. 2022.
#include <bit>

#include "collectives/allreduce/allreduce.hpp"
#include "collectives/allreduce/board_round.hpp"

namespace offbeat::allreduce_algorithms {
namespace {

int left_half(int ranks) { return static_cast<int>(std::bit_ceil(static_cast<unsigned>(ranks)) / 2); }

// Climb from this rank's leaf towards its half of the tree.
Task contribute(const BoardRound& round, std::size_t chunk) {
  const Endpoint& net = round.net;
  const int left_ranks = left_half(net.size);
  const Board::Step step = round.step(chunk);
  const Vector mine = round.on_board(net.rank, chunk);
  ConstVector partial = round.of(round.args.input, chunk);
  bool published = false;  // partial is mine
  int group = net.rank;  // of 2^level ranks
  for (int level = 0; (1 << level) < left_ranks; ++level, group /= 2) {
    const int neighbour = (group ^ 1) << level;  // its first rank
    if (neighbour >= net.size) continue;
    const int split = (group | 1) << level;
    Board::Mark first(step.meeting(split).load(std::memory_order_acquire));
    if (first.round != round.number) {
      if (!published) co_await net.copy(mine, partial);
      partial = mine;
      published = true;
      first = co_await round.board.exchange(step.meeting(split), round.mark());
      if (first.round != round.number) co_return;  // the neighbour comes second and combines
    }
    co_await net.reduce_by_rank(*round.args.op, mine, neighbour, partial, round.on_board(first.holder, chunk));
    partial = mine;
    published = true;
  }
  if (!published) co_await net.copy(mine, partial);
  co_await round.board.announce(step.complete(net.rank < left_ranks ? 0 : 1), round.mark());
}

bool is_complete(const BoardRound& round, std::size_t chunk) {
  const Board::Step step = round.step(chunk);
  return round.is_marked(step.complete(0)) && round.is_marked(step.complete(1));
}

Computation collect(const BoardRound& round, std::size_t chunk) {
  const Board::Step step = round.step(chunk);
  return round.net.reduce(*round.args.op, round.of(round.args.output, chunk),
                          round.on_board(round.holder(step.complete(0)), chunk),
                          round.on_board(round.holder(step.complete(1)), chunk));
}

// Ranks of one half begin at different chunks, so that each comes second about equally often.
std::size_t first_chunk(const BoardRound& round) {
  const Endpoint& net = round.net;
  const int left_ranks = left_half(net.size);
  const int position = net.rank < left_ranks ? net.rank : net.rank - left_ranks;
  const int ranks = net.rank < left_ranks ? left_ranks : net.size - left_ranks;
  return round.chunks * static_cast<std::size_t>(position) / static_cast<std::size_t>(ranks);
}

Task contribute_all(const BoardRound& round) {
  const std::size_t first = first_chunk(round);
  for (std::size_t k = 0; k < round.chunks; ++k) co_await contribute(round, (first + k) % round.chunks);
}

Task one_round(const BoardRound& round) {
  const std::size_t first = first_chunk(round);
  std::size_t collected = 0;
  for (std::size_t k = 0; k < round.chunks; ++k) {
    co_await contribute(round, (first + k) % round.chunks);
    while (collected < round.chunks && is_complete(round, collected)) co_await collect(round, collected++);
  }
  while (collected < round.chunks) {
    Patience::Wait wait(round.board.patience);
    while (!is_complete(round, collected)) co_await round.board.pause(wait);
    co_await collect(round, collected++);
  }
}

constexpr NodePhase node_phase{.contribute = contribute_all, .is_ready = is_complete, .collect = collect};

Task run(Endpoint net, Allreduce args, const Expression&) { return in_rounds(net, args, net.size, one_round); }

}  // namespace

const Algorithm arrival_tree{
    .name = "arrival_tree",
    .summary = "a tree fixed by rank, its work done by who arrives second; ranks on one node, any size",
    .cost = "n bytes at memory speed for each of log2(p) levels after the last arrival",
    .needs = "all ranks on one node; cannot be a part of another algorithm",
    .source = "offbeat",
    .on_board = OnBoard::one_node,
    .node_phase = &node_phase,
    .run = run,
};

}  // namespace offbeat::allreduce_algorithms
