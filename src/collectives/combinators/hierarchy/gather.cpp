// SPDX-License-Identifier: BSD-3-Clause
// Idea: the leader of each node collects the blocks of its node, and the root collects those of the leaders.
// The root is the leader of its node.
//
//   node 0: 0 1 2   node 1: 3 4     root 1:   NODE      0 2 -> 1, 4 -> 3
//                                             LEADERS   3 -> 1: blocks 3 4 in one message
//
// Cost: T_LEADERS(nodes, blocks of the nodes), plus a gather on a node; n bytes in a block.
// Other sizes: the blocks of nodes may differ in length. If the ranks of a node do not follow one another,
// the root collects the blocks in the order of the nodes and copies them to their places.
// Source: Luo et al., IEEE CLUSTER 2020 (HAN).
#include "collectives/combinators/combinators.hpp"
#include "collectives/combinators/hierarchy/hierarchy_phases.hpp"

namespace offbeat::hierarchies {
namespace {

Task run_on_several_nodes(Endpoint net, Call call, const Expression& self) {
  const Nodes nodes(net, call.root);
  const Endpoint node = on_node(net);
  const bool is_root = net.rank == call.root;
  const std::size_t block = call.input.count;
  const std::size_t width = call.input.width;
  const ListedBlocks of_nodes = blocks_of_nodes(nodes.all, block);

  const bool is_reordered = is_root && !nodes.all.is_in_rank_order();
  const Scratch by_node = net.scratch(is_reordered ? of_nodes.total() : 0, width);
  const Vector result = is_reordered ? by_node.vector() : call.output;
  const std::size_t number = static_cast<std::size_t>(nodes.size);
  const Scratch collected =
      net.scratch(nodes.is_leader && !is_root && !nodes.is_alone ? number * block : 0, width);
  const Vector of_node = is_root ? of_nodes.block_of(result, nodes.own_node) : collected.vector();

  if (!nodes.is_alone) {
    Call within = call.with_input_and_output(call.input, of_node);
    within.root = nodes.leader;
    co_await carry_out(node, within, self.parts[0]);
  }
  if (nodes.is_leader) {
    Call between = call.with_input_and_output(nodes.is_alone ? call.input : ConstVector(of_node), result);
    between.root = nodes.root_node;
    between.output_blocks = of_nodes.block_list();
    co_await carry_out(nodes.leaders(net), between, self.parts[1]);
  }
  for (int k = 0; is_reordered && k < net.size; ++k) {
    const int rank = nodes.all.by_node()[static_cast<std::size_t>(k)];
    co_await net.copy(call.output.block(net.size, rank), result.block(net.size, k));
  }
}

}  // namespace

const Algorithm gather{
    .name = "hierarchy",
    .summary = "to the leader of each node by NODE_ALGORITHM, then to the root by ALGORITHM",
    .cost = "T_ALGORITHM(nodes, sn), s ranks on a node, plus a gather on a node",
    .serves = {Collective::gather},
    .needs = {.board = OnBoard::every_node},
    .source = "Luo et al. 2020 (HAN)",
    .parameters = parameters,
    .run = run_for_placement<run_on_several_nodes>,
    .why_unsuitable = why_unsuitable,
};

}  // namespace offbeat::hierarchies
