// SPDX-License-Identifier: BSD-3-Clause
// Arrival tree: a reduction tree fixed by rank, with the work floating. For ranks on one node, through the
// board.
//
// The message goes in chunks. For each chunk a rank climbs from its own leaf: where the neighbouring group of
// ranks is not ready it leaves its partial result on the board and goes on with the next chunk; where it is,
// it combines the two and climbs on. So whoever comes second does the work, and the last arrival finds every
// other group combined. At the root the second one has the result, which everybody copies. Ranks begin at
// different chunks: when all arrive together, each is the last at an equal share of the chunks, and the tree
// works as a reduce-scatter followed by an allgather.
//
//                 (0 1 2 3)
//            (0 1)         (2 3)      by the second of each pair to get there, chunk by chunk
//           0     1       2     3
//
// Partial results are combined in the place of one that was there first. It is the place that this core has
// just read, and which the first one reads next: a cache line goes to and fro between two cores, and nobody
// has to write to a line that another still holds, which costs several times more (benchmarks/README.md).
//
// Cost of the last arrival: it reads n bytes for each of log2(p) levels and its own, and writes 2n, at memory
// speed. Balanced: each rank reads and writes at most (6 - 4/p)n bytes.
// Small messages: every rank writes its vector into its slot and reads those of the others, in rank order, as
// they come: when the data fit in a line or a few, combining them is cheaper than telling others the result.
// The last arrival is followed by one cache line transfer.
// Order: the tree, whoever comes first; rank order for small messages: the bits never depend on arrival.
// Powers of two: that of recursive_doubling. Source: ours; the idea of arrival order from Alizadeh et al.
// 2022.
#include <cstring>

#include "collectives/allreduce/allreduce.hpp"
#include "collectives/allreduce/board_round.hpp"
#include "collectives/immediate.hpp"

namespace offbeat::allreduce_algorithms {
namespace {

// The first of two neighbouring groups to be ready leaves its mark here, and the second one finds it. A pair
// of groups is named by the first rank of the right one, 1 <= split < ranks.
Board::Word& meeting_of(const Board::Step& step, int split) { return BoardRound::own(step, split); }

// Whether everybody else has put on the board what this rank will combine last: so they wait for it.
bool comes_last(const BoardRound& round) {
  const Board::Step step = round.step((round.first_chunk() + round.chunks - 1) % round.chunks);
  const int ranks = round.net.size;
  for (int level = 0, group = round.net.rank; (1 << level) < ranks; ++level, group /= 2) {
    const bool has_neighbour = (group ^ 1) << level < ranks;
    if (has_neighbour && !round.is_marked(meeting_of(step, (group | 1) << level))) return false;
  }
  return true;
}

class Small {
 public:
  // Every rank reads the vectors of all: beyond this the tree is faster (benchmark_board).
  static constexpr int most_ranks = most_immediate_ranks;
  static constexpr std::size_t most_bytes_of_all = 2 * BoardShape::inline_bytes;
  static constexpr bool all_meet = true;

  Small(Board& board, const Call& call)
      : board_(board), call_(call), rank_(board.rank), sequence_(board.sequence.present) {}

  void give() {
    Board::InlineSlot& mine = board_.inline_slot(sequence_, rank_);
    if (call_.input.data != nullptr) std::memcpy(mine.data, call_.input.data, call_.input.bytes());
    mine.sequence.store(sequence_, std::memory_order_release);
  }
  // Not this rank's own slot, which the other one of two may have used again.
  [[nodiscard]] bool has_come(int rank) const {
    return rank == rank_ ||
           board_.inline_slot(sequence_, rank).sequence.load(std::memory_order_acquire) == sequence_;
  }
  [[nodiscard]] const void* data(int rank) const {
    return rank == rank_ ? static_cast<const void*>(call_.input.data)
                         : board_.inline_slot(sequence_, rank).data;
  }
  void take(const void* const* data) {
    if (call_.output.data == nullptr) return;
    (*call_.op)(call_.output.data, data, static_cast<std::size_t>(board_.size), call_.output.count);
  }

 private:
  Board& board_;
  const Call& call_;
  const int rank_;
  const std::uint64_t sequence_;
};

// Climb from this rank's leaf towards the root, chunk by chunk. What is met on the way is combined in one
// pass, once another rank needs it or all is there: so the last arrival reads what the other groups have come
// to, and writes the result.
//
// Nothing is collected in between, though much may be ready: to change between the two at each chunk costs up
// to half as much again at 64 to 256 KiB (two ranks).
Task contribute(const BoardRound& round, Uncollected* results) {
  const Endpoint& net = round.net;
  const auto begin_with = [&](ConstVector vector) { return net.reduce(*round.call.op, Vector{}, vector); };
  round.board.came_last = net.size > 2 && comes_last(round);
  for (std::size_t k = 0; k < round.chunks; ++k) {
    const std::size_t chunk = (round.first_chunk() + k) % round.chunks;
    const Board::Step step = round.step(chunk);
    Computation partial = begin_with(round.of(round.call.input, chunk));
    int place = net.rank;  // in whose window the partial result stands, or will
    bool stands = false;
    bool comes_second = true;
    int group = net.rank;  // of 2^level ranks
    for (int level = 0; (1 << level) < net.size; ++level, group /= 2) {
      const int neighbour = (group ^ 1) << level;  // its first rank
      if (neighbour >= net.size) continue;
      Board::Word& meeting = meeting_of(step, (group | 1) << level);
      Board::Mark first(meeting.load(std::memory_order_acquire));
      const bool is_first = first.round != round.number;
      if (!stands && (is_first || partial.operand_count == Computation::most_operands)) {
        partial.destination = round.on_board(place, chunk);
        co_await partial;
        partial = begin_with(round.on_board(place, chunk));
        stands = true;
      }
      if (is_first) {
        first = co_await round.board.exchange(meeting, round.mark(place));
        comes_second = first.round == round.number;
        if (!comes_second) break;  // the neighbour will, and combines
      }
      if (partial.operand_count > 1 && !round.board.came_last) partial.use_up_last();
      partial.add(round.on_board(first.holder, chunk).data, neighbour < net.rank);
      place = first.holder;
      stands = false;
    }
    if (!comes_second) continue;
    partial.destination = round.on_board(place, chunk);
    if (results != nullptr) {
      // The own copy now, while nobody else asks for these lines.
      partial.second = round.of(round.call.output, chunk);
      partial.past_cache = round.past_cache;
      results->mark_collected(chunk);
    }
    co_await partial;
    co_await round.board.announce(BoardRound::result(step), round.mark(place));
  }
}

}  // namespace

const Algorithm arrival_tree{
    .name = "arrival_tree",
    .summary = "a tree fixed by rank, its work done by who arrives second; ranks on one node, any size",
    .cost = "n bytes at memory speed for each of log2(p) levels after the last arrival",
    .serves = {Collective::allreduce},
    .needs = {.board = OnBoard::one_node},
    .source = "offbeat",
    .node_phase = contribute,
    .immediate = &immediate<Small>,
    .run = run_on_one_node,
};

}  // namespace offbeat::allreduce_algorithms
