// SPDX-License-Identifier: BSD-3-Clause
// Idea: the root sends the blocks of each node to its leader, and every rank takes its own block there. The
// root is the leader of its node.
//
//   node 0: 0 1 2   node 1: 3 4     root 1:   LEADERS   1 -> 3: blocks 3 4 in one message
//                                             NODE      1 -> 0 2, 3 -> 4
//
// Cost: T_LEADERS(nodes, blocks of the nodes), plus a scatter on a node; n bytes in a block.
// Other sizes: the blocks of nodes may differ in length. If the ranks of a node do not follow one another,
// the root first copies the blocks into the order of the nodes.
// Source: Luo et al., IEEE CLUSTER 2020 (HAN).
#include "collectives/combinators/combinators.hpp"
#include "collectives/combinators/hierarchy/hierarchy_phases.hpp"

namespace offbeat::hierarchies {
namespace {

Task run_on_several_nodes(Endpoint net, Call call, const Expression& self) {
  const Nodes nodes(net, call.root);
  const Endpoint node = on_node(net);
  const bool is_root = net.rank == call.root;
  const std::size_t block = call.output.count;
  const std::size_t width = call.output.width;
  const ListedBlocks of_nodes = blocks_of_nodes(nodes.all, block);

  const bool is_reordered = is_root && !nodes.all.is_in_rank_order();
  const Scratch by_node = net.scratch(is_reordered ? of_nodes.total() : 0, width);
  for (int k = 0; is_reordered && k < net.size; ++k) {
    const int rank = nodes.all.by_node()[static_cast<std::size_t>(k)];
    co_await net.copy(by_node.vector().block(net.size, k), call.input.block(net.size, rank));
  }
  const ConstVector given = is_reordered ? ConstVector(by_node.vector()) : call.input;
  const std::size_t number = static_cast<std::size_t>(nodes.size);
  const Scratch taken =
      net.scratch(nodes.is_leader && !is_root && !nodes.is_alone ? number * block : 0, width);

  // The root copies its own block straight from the input, and both phases get an output without memory on
  // the root. With MPI_IN_PLACE the root's output block lies inside the input, which the phases must not
  // write.
  const Vector unwanted{nullptr, block, width};
  if (is_root) co_await net.copy(call.output, call.input.block(net.size, net.rank));
  if (nodes.is_leader) {
    Call between = call.with_input_and_output(given, nodes.is_alone ? call.output : taken.vector());
    if (is_root) between.output = {nullptr, number * block, width};
    between.root = nodes.root_node;
    between.input_blocks = of_nodes.block_list();
    co_await carry_out(nodes.leaders(net), between, self.parts[1]);
  }
  if (nodes.is_alone) co_return;
  Call within = call.with_input_and_output(taken.vector(), call.output);
  if (is_root) within = call.with_input_and_output(of_nodes.block_of(given, nodes.own_node), unwanted);
  within.root = nodes.leader;
  co_await carry_out(node, within, self.parts[0]);
}

}  // namespace

const Algorithm scatter{
    .name = "hierarchy",
    .summary = "from the root to one leader per node by ALGORITHM, then on each node by NODE_ALGORITHM",
    .cost = "T_ALGORITHM(nodes, sn), s ranks on a node, plus a scatter on a node",
    .serves = {Collective::scatter},
    .needs = {.board = OnBoard::every_node},
    .source = "Luo et al. 2020 (HAN)",
    .parameters = parameters,
    .run = run_for_placement<run_on_several_nodes>,
    .why_unsuitable = why_unsuitable,
};

}  // namespace offbeat::hierarchies
