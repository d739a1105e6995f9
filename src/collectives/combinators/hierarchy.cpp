// SPDX-License-Identifier: BSD-3-Clause
// Hierarchy: combine on each node, then among one leader of each node, then tell everybody on the node.
//
//   hierarchy(NODE, LEADERS)   node phase on the board by NODE, an allreduce among the leaders by LEADERS
//
// The phases overlap: while the leaders exchange one segment, the node combines the next and copies the last.
// Cost: T_LEADERS(nodes, n), plus the nodes' work before the first segment and after the last one.
// Order: that of NODE on each node, then that of LEADERS over the nodes.
// Source: Alizadeh et al. 2022, section 4; the overlap is ours.
#include "collectives/combinators/hierarchy.hpp"

#include "collectives/allreduce/board_round.hpp"
#include "collectives/combinators/combinators.hpp"

namespace offbeat::hierarchies {
namespace {

struct Phases {
  NodePhase node;
  const Expression& leaders;
};

// On the leader: takes chunks [first, last) from the node's result to that of all nodes.
Task exchange_segment(Endpoint lane, const BoardRound& round, Phases phases, std::size_t first,
                      std::size_t last) {
  const Vector segment = round.of(round.call.output, first, last);
  if (round.net.size == 1) {
    co_await lane.copy(segment, round.of(round.call.input, first, last));
  } else {
    for (std::size_t chunk = first; chunk < last; ++chunk) {
      Patience::Wait wait(round.board.patience);
      while (!round.has_result(chunk)) co_await round.board.pause(wait);
      co_await round.collect(chunk);
    }
  }
  co_await carry_out(node_leaders(lane).with_lateness(), round.call.with(segment, segment), phases.leaders);
  if (round.net.size == 1) co_return;
  for (std::size_t chunk = first; chunk < last; ++chunk) {
    co_await lane.put(round.on_board(round.net.rank, chunk), round.of(round.call.output, chunk));
    co_await round.board.announce(BoardRound::everywhere(round.step(chunk)), round.mark());
  }
}

// A node of one rank has nothing to combine.
Task contribute(const BoardRound& round, NodePhase node) {
  if (round.net.size > 1) co_await node(round, nullptr);
}

Task one_round(Endpoint net, const BoardRound& round, Phases phases) {
  if (round.net.rank == 0) {
    co_await net.concurrently(1 + in_flight, [&](const Endpoint& lane, int k) {
      if (k == 0) return contribute(round, phases.node);
      const auto segment = static_cast<std::size_t>(k - 1);
      return exchange_segment(lane, round, phases, round.chunks * segment / in_flight,
                              round.chunks * (segment + 1) / in_flight);
    });
    round.board.contributed(round.number);
    co_return;
  }
  co_await contribute(round, phases.node);
  round.board.contributed(round.number);
  for (std::size_t chunk = 0; chunk < round.chunks; ++chunk) {
    const Board::Word& everywhere = BoardRound::everywhere(round.step(chunk));
    Patience::Wait wait(round.board.patience);
    while (!round.is_marked(everywhere)) co_await round.board.pause(wait);
    co_await round.net.copy(round.of(round.call.output, chunk),
                            round.on_board(round.holder(everywhere), chunk));
  }
}

Task run_on_nodes(Endpoint net, Call call, const Expression& self) {
  const Endpoint node = on_node(net);
  const Phases phases{self.parts[0].algorithm->node_phase, self.parts[1]};
  // Leaders must cut the message alike, however many ranks their nodes have.
  const int nodes = node_count(net);
  const int ranks_per_node = (net.size + nodes - 1) / nodes;
  co_await in_rounds(node, call, ranks_per_node,
                     [&](const BoardRound& round) { return one_round(net, round, phases); });
}

}  // namespace

const Algorithm allreduce{
    .name = "hierarchy",
    .summary =
        "combine on each node by NODE_ALGORITHM, among one leader of each node by ALGORITHM, tell the node",
    .cost = "T_ALGORITHM(nodes, n), overlapped with the work on the nodes",
    .serves = {Collective::allreduce},
    .needs = {.board = OnBoard::every_node},
    .source = "Alizadeh et al. 2022",
    .parameters = parameters,
    .run = for_placement<run_on_nodes>,
    .lanes = lanes_in_segments,
    .unsuitable = unsuitable,
};

}  // namespace offbeat::hierarchies
