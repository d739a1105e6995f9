// SPDX-License-Identifier: BSD-3-Clause
// Idea: each node scans its own vectors. The last rank of each node then has the sum of its node, and takes
// part in an exscan of these sums. Each rank adds the sum of the nodes before its own.
//
//   node 0: 0 1 2   node 1: 3 4     NODE      0 01 012, 3 34
//                                   LEADERS   012 from 2 to 4
//                                   bcast     012 from 4 to 3; both add it: 0123 01234
//
// Long vectors go in segments: the last ranks exchange one segment while the nodes scan the next. The board's
// own algorithm carries out the broadcast. The ranks of each node must follow one another.
//
// Cost: T_LEADERS(nodes, n), overlapped with the scan of a node; then a broadcast on a node, and nc.
// Other sizes: any number of nodes, of any size.
// Order: that of NODE on each node, and that of LEADERS over the nodes before it, on the left.
// Source: MPICH's scan for nodes of several ranks (scan_intra_smp.c).
#include "collectives/scan/scan.hpp"

#include <bit>

#include "collectives/combinators/combinators.hpp"
#include "collectives/combinators/hierarchy/hierarchy_phases.hpp"

namespace offbeat::hierarchies {
namespace {

// Scans one segment on a node. The last rank gets the sum of the node.
Task scan_and_sum(Endpoint node, Call call, Vector sum, const Expression& self) {
  if (node.size > 1) co_await carry_out(node, call, self.parts[0]);
  if (scan_algorithms::is_exclusive(call) && node.rank + 1 == node.size && node.size > 1)
    co_await node.reduce(*call.op, sum, call.output, sum);
}

Task run_on_several_nodes(Endpoint net, Call call, const Expression& self) {
  const Nodes nodes(net, Nodes::no_root, Carriers::last);
  const Endpoint node = on_node(net);
  const bool is_exclusive = scan_algorithms::is_exclusive(call);
  const bool is_first_node = nodes.own_node == 0;
  const std::size_t count = call.input.count;
  const std::size_t width = call.input.width;
  // The sum of this node. In an exscan it begins with the last rank's own vector, which its output may
  // replace.
  const bool keeps_sum = is_exclusive && nodes.is_carrier && !nodes.is_alone;
  const Scratch own_sum = net.scratch(keeps_sum ? count : 0, width);
  if (keeps_sum) co_await net.copy(own_sum.vector(), call.input);
  const ConstVector sum = keeps_sum        ? own_sum.vector()
                          : nodes.is_alone ? call.input
                                           : ConstVector(call.output);
  // The sum of the nodes before this one.
  const Scratch memory = net.scratch(is_first_node ? 0 : count, width);
  const Vector before{memory.vector().data, count, width};

  const PhaseSegments segments(count, width);
  Call between = call;
  between.collective = Collective::exscan;
  const auto among_nodes = [&](const Endpoint& carriers, std::size_t k) {
    return carry_out(carriers,
                     between.with_input_and_output(segments[k].part_of(sum), segments[k].part_of(before)),
                     self.parts[1]);
  };
  const auto within_node = [&](std::size_t k) {
    return scan_and_sum(
        node, call.with_input_and_output(segments[k].part_of(call.input), segments[k].part_of(call.output)),
        segments[k].part_of(own_sum.vector()), self);
  };
  co_await run_in_segments(net, nodes, segments.number, FirstPhase::node, among_nodes, within_node);
  if (is_first_node) {
    if (nodes.is_alone && !is_exclusive) co_await net.copy(call.output, call.input);
    co_return;
  }
  if (!nodes.is_alone) {
    Call told(Collective::bcast, {}, before, nullptr, node.size - 1);
    if (nodes.is_carrier) told.input = before;
    co_await hierarchies::within_node(node, told);
  }
  if (is_exclusive && node.rank == 0) {
    co_await net.copy(call.output, before);
  } else {
    co_await net.reduce(*call.op, call.output, before,
                        nodes.is_alone ? call.input : ConstVector(call.output));
  }
}

// Returns Algorithm::lease. Doubling on a node puts several sums of a short vector into a window
// (arrival_prefix).
std::size_t lease(const Call& call, int, int node_ranks) {
  const std::size_t bytes = call.input.bytes();
  const bool is_short = bytes <= static_cast<std::size_t>(node_ranks) * BoardShape::smallest_chunk;
  return is_short ? bytes * static_cast<std::size_t>(std::bit_width(static_cast<unsigned>(node_ranks - 1)))
                  : bytes;
}

std::string unsuitable_for_scan(const Expression& self, const Placement& placement) {
  if (!placement.in_rank_order) return "needs nodes whose ranks follow one another";
  return why_unsuitable(self, placement);
}

}  // namespace

const Algorithm scan{
    .name = "hierarchy",
    .summary =
        "scan on each node by NODE_ALGORITHM, exscan of the nodes' sums by ALGORITHM, add it on each node",
    .cost = "T_ALGORITHM(nodes, n), overlapped with the work on the nodes; then a bcast on a node and nc",
    .serves = {Collective::scan, Collective::exscan},
    .needs = {.board = OnBoard::every_node},
    .source = "MPICH's scan for nodes of several ranks",
    .parameters = parameters,
    .lease = lease,
    .run = run_for_placement<run_on_several_nodes>,
    .lanes = lanes_in_segments,
    .why_unsuitable = unsuitable_for_scan,
};

}  // namespace offbeat::hierarchies
