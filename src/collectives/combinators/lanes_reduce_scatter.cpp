// SPDX-License-Identifier: BSD-3-Clause
// Idea: member k of each node first gets its node's sum of the blocks for member k of every node. Then the
// members k of all nodes combine these sums, and each keeps its own block.
//
//   node 0: 0 1   node 1: 2 3     what each rank has, by destination: 0123
//   NODE          0 has 0 2 of node 0, 1 has 1 3, 2 has 0 2 of node 1, 3 has 1 3
//   the lanes     0 <-> 2, 1 <-> 3
//
// In a hierarchy one leader sends for its node, and its node scatters the result. Here each rank sends its
// share, and has its block when that is over.
//
// NODE only says that the nodes work on their boards; they combine as arrival_shares does.
//
// Cost: T_A(nodes, n/s), plus a reduce_scatter of n on a node of s ranks; n bytes in all blocks.
// Other sizes: if nodes differ in size, hierarchy replaces it.
// Order: that of arrival_shares over the ranks of each node, then that of A over the nodes.
// Source: the full-lane reduce_scatter of Traff and Hunold 2020.
#include "collectives/allreduce/allreduce.hpp"
#include "collectives/combinators/combinators.hpp"
#include "collectives/combinators/hierarchy/hierarchy_phases.hpp"

namespace offbeat::lanes {
namespace {

Task run_on_several_nodes(Endpoint net, Call call, const Expression& self) {
  const Membership& all = net.locality()->membership;
  const Endpoint node = on_node(net);
  const Endpoint lane = across_nodes(net);
  const auto rank = [&](int k) { return all.rank(k, node.rank); };
  const auto count_of = [&](int k) {
    return call.input_blocks.block_of(call.input, rank(k), net.size).count;
  };
  const auto begin_of = [&](int k) {
    return call.input_blocks.begin_of_block(call.input.count, rank(k), net.size);
  };
  const hierarchies::ListedBlocks in_vector(lane.size, count_of, begin_of);
  const hierarchies::ListedBlocks in_lane(lane.size, count_of);
  const Scratch memory = net.scratch(in_lane.total(), call.input.width);
  const Vector of_node = memory.vector();
  const BlockList pieces = in_vector.block_list();
  co_await allreduce_algorithms::scatter_by_shares(node, call.with_input_and_output(call.input, of_node),
                                                   pieces, lane.size);
  Call between = call.with_input_and_output(of_node, call.output);
  between.input_blocks = in_lane.block_list();
  co_await carry_out(lane, between, self.parts[1]);
}

}  // namespace

const Algorithm reduce_scatter{
    .name = "lanes",
    .summary = "the ranks of a node combine by shares, then each with its lane by ALGORITHM",
    .cost = "T_ALGORITHM(nodes, n/s), plus a reduce_scatter of n on a node of s ranks",
    .serves = {Collective::reduce_scatter, Collective::reduce_scatter_block},
    .needs = {.board = OnBoard::every_node},
    .source = "Traff and Hunold 2020",
    .parameters = hierarchies::parameters,
    .lease = [](const Call& call, int, int) { return call.input.bytes(); },
    .run = hierarchies::run_for_placement<run_on_several_nodes>,
    .for_unequal_nodes = &hierarchies::reduce_scatter,
    .why_unsuitable = hierarchies::why_unequal_or_unsuitable,
};

}  // namespace offbeat::lanes
