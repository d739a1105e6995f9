// SPDX-License-Identifier: BSD-3-Clause
// Idea: each node combines its vectors. Then every rank of a node carries its share of the result between the
// nodes, and every rank takes all shares.
//
//   lanes(NODE, A)        node phase on the board by NODE, an allreduce by A in each lane
//
//   2 nodes of 3 ranks    node 0: 0 1 2   node 1: 3 4 5   the node's result in three shares
//   the lanes             0 <-> 3, 1 <-> 4, 2 <-> 5       rank k of each node has share k
//
// A node sends as fast as all of its ranks together, not only as fast as one leader. With one lane this is
// the hierarchy of an allreduce, and hierarchy.cpp runs it that way. The phases overlap: while the carriers
// exchange one segment, the node combines the next one and copies the one before.
//
// Cost: T_A(nodes, n/s) for s ranks on a node, if a node can send for all of them at once, plus the nodes'
// work before the first segment and after the last one.
// Other sizes: the smallest node decides how many lanes there are, because every lane crosses all nodes. The
// other ranks of a node combine and copy.
// Order: that of NODE on each node, then that of A over the nodes.
// Source: the full-lane allreduce of Traff and Hunold 2020; the overlap is ours.
#include "collectives/board/board_round.hpp"
#include "collectives/combinators/combinators.hpp"
#include "collectives/combinators/hierarchy/hierarchy_phases.hpp"

namespace offbeat::hierarchies {
namespace {

// The chunks [first, last) of a round.
struct Segment {
  std::size_t first;
  std::size_t last;
};

// Shares says how the chunks of a round are divided among the first members of each node.
struct CarrierShares {
  // Shorter segments gain less by overlap than their messages cost (benchmarks/README.md, hosts of two
  // ranks).
  static constexpr std::size_t shortest_segment = std::size_t{32} << 10;

  CarrierShares(const BoardRound& round, int carriers)
      : chunks(round.chunks),
        carriers(carriers),
        segments(static_cast<int>(std::clamp<std::size_t>(
            round.call.input.bytes() / (static_cast<std::size_t>(carriers) * shortest_segment), 1,
            hierarchies::segments_in_flight))) {}

  const std::size_t chunks;
  const int carriers;
  const int segments;  // how many each carrier has

  [[nodiscard]] bool is_carrier(int member) const { return member < carriers; }
  // Returns a segment of a carrier: 0 <= number < segments.
  [[nodiscard]] Segment segment(int carrier, int number) const {
    const auto all = static_cast<std::size_t>(carriers * segments);
    const auto place = static_cast<std::size_t>(carrier * segments + number);
    return {chunks * place / all, chunks * (place + 1) / all};
  }
};

struct Phases {
  NodePhase node;
  const Expression& lane;
};

// Waits for the node's result of a segment, combines it with those of the other nodes, and announces the
// result on the board. Only carriers call this.
Task exchange_segment(Endpoint lane, const BoardRound& round, Phases phases, Segment segment) {
  const Vector output = round.chunk_of(round.call.output, segment.first, segment.last);
  if (round.net.size == 1) {
    co_await lane.copy(output, round.chunk_of(round.call.input, segment.first, segment.last));
  } else {
    for (std::size_t chunk = segment.first; chunk < segment.last; ++chunk) {
      Patience::Wait wait(round.board.patience);
      const Board::Word& result = round.result_of(chunk);
      const auto is_there = [&] { return round.is_marked(result); };
      while (!is_there()) co_await round.board.pause(wait, is_there);
      co_await round.collect_chunk(chunk);
    }
  }
  co_await carry_out(across_nodes(lane).with_lateness(), round.call.with_input_and_output(output, output),
                     phases.lane);
  if (round.net.size == 1) co_return;
  for (std::size_t chunk = segment.first; chunk < segment.last; ++chunk) {
    co_await lane.put(round.chunk_on_board(round.net.rank, chunk), round.chunk_of(round.call.output, chunk));
    co_await round.board.announce(BoardRound::global_result_word(round.step(chunk)), round.mark());
  }
}

// Takes the segments of the other carriers of this node. Each rank begins with a different carrier.
Task take_from_others(const BoardRound& round, CarrierShares shares) {
  for (int number = 0; number < shares.segments; ++number) {
    for (int k = 0; k < shares.carriers; ++k) {
      const int carrier = (round.net.rank + k) % shares.carriers;
      if (carrier == round.net.rank) continue;
      const Segment segment = shares.segment(carrier, number);
      for (std::size_t chunk = segment.first; chunk < segment.last; ++chunk) {
        const Board::Word& everywhere = BoardRound::global_result_word(round.step(chunk));
        Patience::Wait wait(round.board.patience);
        const auto is_there = [&] { return round.is_marked(everywhere); };
        while (!is_there()) co_await round.board.pause(wait, is_there);
        co_await round.net.copy(round.chunk_of(round.call.output, chunk),
                                round.chunk_on_board(round.holder(everywhere), chunk));
      }
    }
  }
}

// Does the rank's work on its own node. A node of one rank has nothing to combine and no other rank to take
// from.
Task run_node_phase(const BoardRound& round, NodePhase node, CarrierShares shares) {
  if (round.net.size == 1) co_return;
  co_await node(round, nullptr);
  if (!shares.is_carrier(round.net.rank)) round.board.announce_contribution();
  co_await take_from_others(round, shares);
}

Task run_round(Endpoint net, const BoardRound& round, Phases phases, CarrierShares shares) {
  const int member = round.net.rank;
  if (!shares.is_carrier(member)) {
    co_await run_node_phase(round, phases.node, shares);
    co_return;
  }
  co_await net.concurrently(1 + shares.segments, [&](const Endpoint& lane, int k) {
    if (k == 0) return run_node_phase(round, phases.node, shares);
    return exchange_segment(lane, round, phases, shares.segment(member, k - 1));
  });
  round.board.announce_contribution();
}

}  // namespace

Task run_in_lanes(Endpoint net, Call call, const Expression& self, int carriers) {
  const Endpoint node = on_node(net);
  const Phases phases{self.parts[0].algorithm->node_phase, self.parts[1]};
  // All carriers must cut the message in one way, even if their nodes have different numbers of ranks.
  const int nodes = node_count(net);
  const int ranks_per_node = (net.size + nodes - 1) / nodes;
  co_await run_in_rounds(node, call, chunk_bytes_among(call, ranks_per_node), [&](const BoardRound& round) {
    return run_round(net, round, phases, CarrierShares(round, carriers));
  });
}

}  // namespace offbeat::hierarchies

namespace offbeat::lanes {
namespace {

Task run_on_several_nodes(Endpoint net, Call call, const Expression& self) {
  return hierarchies::run_in_lanes(net, call, self, net.locality()->membership.smallest_node_size());
}

}  // namespace

const Algorithm allreduce{
    .name = "lanes",
    .summary =
        "combine on each node by NODE_ALGORITHM, then each rank of a node carries a share by ALGORITHM",
    .cost = "T_ALGORITHM(nodes, n/s), s ranks on a node, overlapped with the work on the nodes",
    .serves = {Collective::allreduce},
    .needs = {.board = OnBoard::every_node},
    .source = "Traff and Hunold 2020",
    .parameters = hierarchies::parameters,
    .run = hierarchies::run_for_placement<run_on_several_nodes>,
    .lanes = hierarchies::lanes_in_segments,
    .why_unsuitable = hierarchies::why_unsuitable,
};

}  // namespace offbeat::lanes
