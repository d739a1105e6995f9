// SPDX-License-Identifier: BSD-3-Clause
// Idea: the blocks of each node are gathered there, the leaders exchange the blocks of whole nodes, and every
// rank copies all blocks on its node.
//
//   node 0: 0 1 2   node 1: 3 4     NODE      every rank of node 0 has 012, of node 1 34
//                                   LEADERS   0 and 3 have 01234
//                                   NODE      0 -> 1 2, 3 -> 4
//
// Long blocks go in segments if LEADERS can cut blocks: while the leaders exchange one part of each block,
// the nodes copy the part before it.
//
// Cost: T_LEADERS(nodes, sm), plus (p-1) m copied on a node; m bytes in a block, s ranks on a node.
// Other sizes: the blocks of nodes may differ in length. LEADERS needs them in the order of the nodes. If the
// output has another order, each rank collects them in separate memory and copies them to their places.
// Source: Luo et al., IEEE CLUSTER 2020 (HAN); the order of the phases is ours.
#include "collectives/combinators/combinators.hpp"
#include "collectives/combinators/hierarchy/hierarchy_phases.hpp"

namespace offbeat::hierarchies {
namespace {

// Broadcasts `vector` from the leader to the others of its node.
Task broadcast(Endpoint node, Vector vector) {
  Call call{Collective::bcast};
  call.output = vector;
  if (node.rank == 0) call.input = vector;
  return within_node(node, call);
}

// Broadcasts a stripe of the blocks of all other nodes.
Task broadcast_others(Endpoint node, const Nodes& nodes, const ListedBlocks& of_nodes, Vector all,
                      Stripe stripe) {
  for (int k = 0; k < nodes.count; ++k) {
    if (k != nodes.own_node) co_await broadcast(node, stripe.part_of(of_nodes.block_of(all, k)));
  }
}

Task run_on_several_nodes(Endpoint net, Call call, const Expression& self) {
  const Nodes nodes(net);
  const Endpoint node = on_node(net);
  const std::size_t width = call.output.width;
  const auto place = [&](int rank) { return call.output_blocks.block_of(call.output, rank, net.size); };
  const auto count_of = [&](int rank) { return place(rank).count; };
  const ListedBlocks of_nodes = call.output_blocks.counts == nullptr
                                    ? blocks_of_nodes(nodes.all, call.input.count)
                                    : blocks_of_nodes(nodes.all, count_of);

  const Vector in_place = blocks_in_node_order(call.output, call.output_blocks, nodes.all);
  const bool is_reordered = in_place.count < of_nodes.total();
  const Scratch by_node = net.scratch(is_reordered ? of_nodes.total() : 0, width);
  const Vector all = is_reordered ? by_node.vector() : in_place;
  const Vector of_node = of_nodes.block_of(all, nodes.own_node);

  if (!nodes.is_alone) {
    const auto here = nodes.all.members(nodes.own_node);
    const ListedBlocks members(nodes.size,
                               [&](int k) { return count_of(here[static_cast<std::size_t>(k)]); });
    Call within = call.with_input_and_output(call.input, of_node);
    if (call.output_blocks.counts != nullptr) within.output_blocks = members.block_list();
    co_await carry_out(node, within, self.parts[0]);
  }

  const bool is_cut = self.parts[1].algorithm->takes_stripes;
  const PhaseSegments segments(is_cut ? of_nodes.longest() : 0, width);
  const auto stripe = [&](std::size_t k) { return segments.number == 1 ? Stripe{} : segments[k]; };
  const auto among_leaders = [&](const Endpoint& leaders, std::size_t k) {
    Call between = call.with_input_and_output(
        stripe(k).part_of(nodes.is_alone ? call.input : ConstVector(of_node)), all);
    between.collective = Collective::allgatherv;
    between.output_blocks = of_nodes.block_list();
    between.output_blocks.stripe = stripe(k);
    return carry_out(leaders, between, self.parts[1]);
  };
  const auto within_node = [&](std::size_t k) {
    return segments.number == 1 ? broadcast(node, all)
                                : broadcast_others(node, nodes, of_nodes, all, segments[k]);
  };
  co_await run_in_segments(net, nodes, segments.number, FirstPhase::between, among_leaders, within_node);

  std::size_t begin = 0;
  for (const int rank : nodes.all.by_node()) {
    if (!is_reordered) break;
    co_await net.copy(place(rank), all.slice(begin, count_of(rank)));
    begin += count_of(rank);
  }
}

}  // namespace

const Algorithm allgather{
    .name = "hierarchy",
    .summary =
        "gather on each node by NODE_ALGORITHM, exchange among one leader per node by ALGORITHM, copy on "
        "each node",
    .cost = "T_ALGORITHM(nodes, sm), s ranks on a node, overlapped with the copies on the nodes",
    .serves = {Collective::allgather, Collective::allgatherv},
    .needs = {.board = OnBoard::every_node},
    .source = "Luo et al. 2020 (HAN)",
    .parameters = parameters,
    .run = run_for_placement<run_on_several_nodes>,
    .lanes = lanes_in_segments,
    .why_unsuitable = why_unsuitable,
};

}  // namespace offbeat::hierarchies
