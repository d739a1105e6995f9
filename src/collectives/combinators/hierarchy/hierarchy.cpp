// SPDX-License-Identifier: BSD-3-Clause
// Idea: each node combines, then one leader of each node combines with the other leaders, and then each node
// copies. This is `lanes` with one lane, that of the leaders (combinators/lanes.cpp).
//
//   hierarchy(NODE, LEADERS)   node phase on the board by NODE, an allreduce among the leaders by LEADERS
//
// The phases overlap: while the leaders exchange one segment, the node combines the next one and copies the
// one before. A short vector has one segment. On nodes of many ranks it goes to the leader up the tree of the
// board, as in a reduce, and back down the tree, as in a bcast: if all ranks read what the leader writes, the
// leader's core hands over its lines one after the other.
//
// Cost: T_LEADERS(nodes, n), plus the nodes' work before the first segment and after the last one.
// Order: that of NODE on each node, then that of LEADERS over the nodes.
// Source: Alizadeh et al. 2022, section 4; the overlap is ours.
#include "collectives/combinators/combinators.hpp"
#include "collectives/combinators/hierarchy/hierarchy_phases.hpp"

namespace offbeat::hierarchies {
namespace {

Task run_on_trees(Endpoint net, Call call, const Expression& self) {
  const Nodes nodes(net);
  const Endpoint node = on_node(net);
  if (!nodes.is_alone) {
    Call up = call.with_input_and_output(call.input, call.output);
    up.collective = Collective::reduce;
    up.root = nodes.leader;
    if (!nodes.is_leader) up.output.data = nullptr;
    co_await within_node(node, up);
  }
  if (nodes.is_leader) {
    const ConstVector sum = nodes.is_alone ? call.input : ConstVector(call.output);
    co_await carry_out(nodes.leaders(net).with_lateness(), call.with_input_and_output(sum, call.output),
                       self.parts[1]);
  }
  if (!nodes.is_alone) {
    const Vector result{call.output.data, call.output.bytes(), 1};
    Call down{Collective::bcast, nodes.is_leader ? ConstVector(result) : ConstVector{}, result};
    down.root = nodes.leader;
    co_await within_node(node, down);
  }
}

Task run_among_leaders(Endpoint net, Call call, const Expression& self) {
  // All ranks compute equal values, even if nodes differ in size.
  const int nodes = node_count(net);
  const int ranks_per_node = (net.size + nodes - 1) / nodes;
  const bool has_trees =
      self.parts[0].algorithm->name == "arrival_tree" && ranks_per_node > BoardShape::most_ranks_without_tree;
  if (has_trees && call.input.bytes() <= BoardShape::inline_bytes) return run_on_trees(net, call, self);
  return run_in_lanes(net, call, self, 1);
}

}  // namespace

const Algorithm allreduce{
    .name = "hierarchy",
    .summary =
        "combine on each node by NODE_ALGORITHM, among one leader per node by ALGORITHM, copy on each node",
    .cost = "T_ALGORITHM(nodes, n), overlapped with the work on the nodes",
    .serves = {Collective::allreduce},
    .needs = {.board = OnBoard::every_node},
    .source = "Alizadeh et al. 2022",
    .parameters = parameters,
    .run = run_for_placement<run_among_leaders>,
    .lanes = lanes_in_segments,
    .why_unsuitable = why_unsuitable,
};

}  // namespace offbeat::hierarchies
