// SPDX-License-Identifier: BSD-3-Clause
// Idea: each node combines for its leader, and the leaders combine for the root. The root is the leader of
// its node.
//
//   node 0: 0 1 2   node 1: 3 4     root 1:   NODE      0 2 -> 1, 4 -> 3
//                                             LEADERS   3 -> 1
//
// Long vectors go in segments: while the leaders combine one segment, the nodes combine the next.
//
// Cost: T_LEADERS(nodes, n), plus the work of a node on the first segment.
// Order: that of NODE over the ranks of each node, then that of LEADERS over the nodes.
// Source: Luo et al., IEEE CLUSTER 2020 (HAN).
#include "collectives/combinators/combinators.hpp"
#include "collectives/combinators/hierarchy/hierarchy_phases.hpp"

namespace offbeat::hierarchies {
namespace {

Task run_on_several_nodes(Endpoint net, Call call, const Expression& self) {
  const Nodes nodes(net, call.root);
  const Endpoint node = on_node(net);
  const bool is_root = net.rank == call.root;
  const std::size_t count = call.input.count;
  const std::size_t width = call.input.width;
  const Scratch memory = net.scratch(nodes.is_leader && !nodes.is_alone && !is_root ? count : 0, width);
  // The sum of this node. Only the leader has memory for it.
  const Vector sum = is_root ? call.output : Vector{memory.vector().data, count, width};
  const ConstVector for_leaders = nodes.is_alone ? call.input : ConstVector(sum);
  const Vector result{is_root ? call.output.data : nullptr, count, width};

  const PhaseSegments segments(count, width);
  const auto part = [&](std::size_t segment, ConstVector input, Vector output, int root) {
    Call of_segment =
        call.with_input_and_output(segments[segment].part_of(input), segments[segment].part_of(output));
    of_segment.root = root;
    return of_segment;
  };
  const auto among_leaders = [&](const Endpoint& leaders, std::size_t k) {
    return carry_out(leaders, part(k, for_leaders, result, nodes.root_node), self.parts[1]);
  };
  const auto within_node = [&](std::size_t k) {
    return carry_out(node, part(k, call.input, sum, nodes.leader), self.parts[0]);
  };
  co_await run_in_segments(net, nodes, segments.number, FirstPhase::node, among_leaders, within_node);
}

}  // namespace

const Algorithm reduce{
    .name = "hierarchy",
    .summary = "combine on each node by NODE_ALGORITHM, then among one leader per node by ALGORITHM",
    .cost = "T_ALGORITHM(nodes, n), overlapped with the work on the nodes",
    .serves = {Collective::reduce},
    .needs = {.board = OnBoard::every_node},
    .source = "Luo et al. 2020 (HAN)",
    .parameters = parameters,
    .run = run_for_placement<run_on_several_nodes>,
    .lanes = lanes_in_segments,
    .why_unsuitable = why_unsuitable,
};

}  // namespace offbeat::hierarchies
