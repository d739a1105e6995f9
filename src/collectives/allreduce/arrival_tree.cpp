// SPDX-License-Identifier: BSD-3-Clause
// Idea: the shape of the reduction tree is fixed by rank, while arrival decides which rank does the work. It
// runs on one node, on the board.
//
// The message is cut into chunks. For each chunk a rank climbs from its own leaf. If the neighbouring group
// of ranks is not ready, the rank leaves its partial result on the board and continues with the next chunk.
// If that group is ready, the rank combines the two and goes up. So the second rank to come does the work,
// and the last arrival finds every other group combined. At the root the second rank has the result, which
// every rank copies. Ranks begin at different chunks. If all arrive together, each rank is the last at an
// equal share of the chunks, and the tree works as a reduce-scatter followed by an allgather.
//
//                 (0 1 2 3)
//            (0 1)         (2 3)      by the second of each pair to get there, chunk by chunk
//           0     1       2     3
//
// The second rank combines into the place of the partial result that was there first. Its core has just read
// that place, and the first rank reads it next. So a cache line moves back and forth between two cores.
//
// Short messages go another way (short_allreduce.hpp).
// Cost: after the last arrival, that rank reads n bytes for each of log2(p) levels and n of its own, and
// writes 2n, at memory speed. If all arrive together, each rank reads and writes at most (6 - 4/p)n bytes.
// Order: the order of the tree, whichever rank comes first, groups of four for short messages,
// or rank order up to 7 ranks (groups_of_four.hpp). So the bits never depend on arrival. For powers of two
// the tree is that of recursive_doubling. Source: ours; the idea of arrival order is from Alizadeh et al.
// 2022.
#include "collectives/allreduce/allreduce.hpp"
#include "collectives/allreduce/short_allreduce.hpp"
#include "collectives/board/board_round.hpp"

namespace offbeat::allreduce_algorithms {
namespace {

// The first of two neighbouring groups to be ready leaves its mark here, and the second one finds it. The
// first rank of the right group, 1 <= split < ranks, names the pair.
Board::Word& meeting_word_of(const Board::Step& step, int split) {
  return BoardRound::node_phase_word(step, split);
}

// Returns the rank that this one meets first, or this rank itself if there is none.
int first_partner(const Endpoint& net) { return std::min(net.rank ^ 1, net.size - 1); }

// Climbs from this rank's leaf towards the root, chunk by chunk. The rank collects the partial results that
// it meets. It combines them in one pass, when another rank needs the sum or all of them are there. So the
// last arrival reads the results of the other groups and writes the final one.
//
// The rank copies no results of other chunks in between, though many may be ready. Alternating at each chunk
// takes up to 1.5 times as long at 64 to 256 KiB (two ranks).
//
// In a reduce only the root needs the result. So the root prefers to come second and to combine into its
// output. It begins at its neighbour's first chunk and, if the neighbour has begun, waits for the neighbour's
// data.
Task contribute(const BoardRound& round, UncollectedResults* results) {
  const Endpoint& net = round.net;
  const auto begin_with = [&](ConstVector vector) { return net.reduce(*round.call.op, Vector{}, vector); };
  const bool is_root = results != nullptr && facts_of(round.call.collective).has_root;  // of a reduce
  const std::size_t first_chunk = round.first_chunk(is_root ? first_partner(net) : net.rank);
  for (std::size_t k = 0; k < round.chunks; ++k) {
    const std::size_t chunk = (first_chunk + k) % round.chunks;
    const Board::Step step = round.step(chunk);
    Computation partial = begin_with(round.chunk_of(round.call.input, chunk));
    int place = net.rank;  // the rank whose window has the partial result, or will have it
    bool stands = false;
    bool comes_second = true;
    int group = net.rank;  // of 2^level ranks
    for (int level = 0; (1 << level) < net.size; ++level, group /= 2) {
      const int neighbour = (group ^ 1) << level;  // its first rank
      if (neighbour >= net.size) continue;
      Board::Word& meeting = meeting_word_of(step, (group | 1) << level);
      Board::Mark first(meeting.load(std::memory_order_acquire));
      if (is_root && level == 0 && first.round != round.tag && round.has_begun(neighbour)) {
        Patience::Wait wait(round.board.patience);
        const auto has_arrived = [&] { return round.is_marked(meeting); };
        while (!has_arrived()) co_await round.board.pause(wait, has_arrived);
        first = Board::Mark(meeting.load(std::memory_order_acquire));
      }
      const bool is_first = first.round != round.tag;
      if (!stands && (is_first || partial.operand_count == Computation::most_operands)) {
        partial.destination = round.chunk_on_board(place, chunk);
        partial.to_shared = true;
        co_await partial;
        partial = begin_with(round.chunk_on_board(place, chunk));
        stands = true;
      }
      if (is_first) {
        first = co_await round.board.exchange(meeting, round.mark(place));
        comes_second = first.round == round.tag;
        if (!comes_second) break;  // the neighbour comes second, and combines
      }
      const ConstVector theirs = round.chunk_on_board(first.holder, chunk);
      co_await round.board.charge_fetch(first.holder, nullptr, sizeof(Board::Word));
      co_await round.board.charge_fetch(first.holder, theirs.data, theirs.bytes());
      partial.add(theirs.data, neighbour < net.rank);
      place = first.holder;
      stands = false;
    }
    if (!comes_second) continue;
    if (results != nullptr) {
      partial.past_cache = round.past_cache;
      results->mark_collected(chunk);
    }
    if (is_root) {
      partial.destination = round.chunk_of(round.call.output, chunk);
      co_await partial;
      continue;
    }
    partial.destination = round.chunk_on_board(place, chunk);
    // This rank's own copy is made now, while no other rank asks for these lines.
    if (results != nullptr) partial.second_destination = round.chunk_of(round.call.output, chunk);
    co_await partial;
    co_await round.board.announce(BoardRound::result(step), round.mark(place));
  }
}

}  // namespace

const Algorithm arrival_tree{
    .name = "arrival_tree",
    .summary =
        "a tree fixed by rank, in which the second to arrive does the work; ranks on one node, any size",
    .cost = "n bytes at memory speed for each of log2(p) levels after the last arrival",
    .serves = {Collective::allreduce},
    .needs = {.board = OnBoard::one_node},
    .source = "offbeat",
    .order = tree_order,
    .node_phase = contribute,
    .immediate = short_allreduce,
    .run = run_on_one_node,
};

}  // namespace offbeat::allreduce_algorithms
