// SPDX-License-Identifier: BSD-3-Clause
// Idea: each node combines, so that every rank of it has a share of the node's sum. Each lane combines its
// share for the root's node, whose ranks give their shares to the root.
//
//   node 0: 0 1   node 1: 2 3   root 0
//   NODE          0 and 1 have the halves a and b of the sum of node 0, 2 and 3 those of node 1
//   the lanes     2 -> 0: a, 3 -> 1: b
//   root's node   1 -> 0: b
//
// In a hierarchy one leader sends the whole vector for its node. NODE only says that the nodes work on their
// boards; they combine as arrival_shares does.
//
// Cost: T_A(nodes, n/s), plus a reduce_scatter and a gather of n on a node of s ranks.
// Other sizes: if nodes differ in size, hierarchy replaces it.
// Order: that of arrival_shares over the ranks of each node, then that of A over the nodes.
// Source: the full-lane reduce of Traff and Hunold 2020.
#include "collectives/allreduce/allreduce.hpp"
#include "collectives/combinators/combinators.hpp"
#include "collectives/combinators/hierarchy/hierarchy_phases.hpp"

namespace offbeat::lanes {
namespace {

Task run_on_several_nodes(Endpoint net, Call call, const Expression& self) {
  const hierarchies::Nodes nodes(net, call.root);
  const Endpoint node = on_node(net);
  const std::size_t count = call.input.count;
  const std::size_t width = call.input.width;
  const bool is_at_root = nodes.own_node == nodes.root_node;
  const std::size_t share = call.input.block(node.size, node.rank).count;
  const auto begin = static_cast<std::ptrdiff_t>(block_begin(count, node.size, node.rank));
  const BlockList own{&share, &begin};

  const Scratch of_node = net.scratch(share, width);
  co_await allreduce_algorithms::scatter_by_shares(
      node, call.with_input_and_output(call.input, of_node.vector()), own, 1);

  const Scratch of_all = net.scratch(is_at_root ? share : 0, width);
  Call between = call.with_input_and_output(of_node.vector(), {of_all.vector().data, share, width});
  between.root = nodes.root_node;
  co_await carry_out(across_nodes(net), between, self.parts[1]);

  if (!is_at_root) co_return;
  const hierarchies::ListedBlocks shares(
      node.size, [&](int member) { return call.input.block(node.size, member).bytes(); });
  const Vector result{net.rank == call.root ? call.output.data : nullptr, count * width, 1};
  Call within{Collective::gather, {of_all.vector().data, share * width, 1}, result};
  within.root = nodes.leader;
  within.output_blocks = shares.block_list();
  co_await hierarchies::within_node(node, within);
}

}  // namespace

const Algorithm reduce{
    .name = "lanes",
    .summary = "the ranks of a node combine by shares, then each lane by ALGORITHM for the root's node",
    .cost = "T_ALGORITHM(nodes, n/s), plus a reduce_scatter and a gather of n on a node of s ranks",
    .serves = {Collective::reduce},
    .needs = {.board = OnBoard::every_node},
    .source = "Traff and Hunold 2020",
    .parameters = hierarchies::parameters,
    .run = hierarchies::run_for_placement<run_on_several_nodes>,
    .for_unequal_nodes = &hierarchies::reduce,
    .lanes = hierarchies::lanes_in_segments,
    .why_unsuitable = hierarchies::why_unequal_or_unsuitable,
};

}  // namespace offbeat::lanes
