// SPDX-License-Identifier: BSD-3-Clause
// Idea: the root sends to one leader of each other node, and every rank copies on its node. The root is the
// leader of its node.
//
//   node 0: 0 1 2   node 1: 3 4     root 1:   LEADERS   1 -> 3
//                                             NODE      1 -> 0 2, 3 -> 4
//
// Long vectors go in segments: while the leaders move one segment, the nodes copy the one before.
//
// Cost: T_LEADERS(nodes, n), plus the copy of the last segment on a node.
// Source: Luo et al., IEEE CLUSTER 2020 (HAN).
#include "collectives/combinators/combinators.hpp"
#include "collectives/combinators/hierarchy/hierarchy_phases.hpp"

namespace offbeat::hierarchies {
namespace {

Task run_on_several_nodes(Endpoint net, Call call, const Expression& self) {
  const Nodes nodes(net, call.root);
  const Endpoint node = on_node(net);
  // A pipeline among the leaders cuts each segment again, and that pays: with chain instead of
  // pipeline(16KiB, chain), 1 MiB takes 1.6 (cluster), 1.15 (rome) and 1.25 times as long (genoa) on 8 nodes
  // of 8 ranks in the simulator.
  const PhaseSegments segments(call.output.count, call.output.width);
  // Makes the call for a segment. `root` is the giver's number among the ranks that take part.
  const auto part = [&](std::size_t segment, bool gives, int root) {
    Call of_segment = call;
    of_segment.output = segments[segment].part_of(call.output);
    of_segment.input = gives ? ConstVector(of_segment.output) : ConstVector{};
    of_segment.root = root;
    return of_segment;
  };
  const auto among_leaders = [&](const Endpoint& leaders, std::size_t k) {
    return carry_out(leaders, part(k, net.rank == call.root, nodes.root_node), self.parts[1]);
  };
  const auto within_node = [&](std::size_t k) {
    return carry_out(node, part(k, nodes.is_leader, nodes.leader), self.parts[0]);
  };
  co_await run_in_segments(net, nodes, segments.number, FirstPhase::between, among_leaders, within_node);
}

}  // namespace

const Algorithm bcast{
    .name = "hierarchy",
    .summary = "among one leader per node by ALGORITHM, then on each node by NODE_ALGORITHM",
    .cost = "T_ALGORITHM(nodes, n), overlapped with the work on the nodes",
    .serves = {Collective::bcast},
    .needs = {.board = OnBoard::every_node},
    .source = "Luo et al. 2020 (HAN)",
    .parameters = parameters,
    .run = run_for_placement<run_on_several_nodes>,
    .lanes = lanes_in_segments,
    .why_unsuitable = why_unsuitable,
};

}  // namespace offbeat::hierarchies
