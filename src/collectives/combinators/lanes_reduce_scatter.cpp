// SPDX-License-Identifier: BSD-3-Clause
// Idea: the ranks of a node combine, so that each has the node's part of what goes to the ranks with its
// member number on all nodes. Then these combine between the nodes, and each keeps its block.
//
//   node 0: 0 1   node 1: 2 3     what each rank has, by destination: 0123
//   NODE          0 has 0 2 of node 0, 1 has 1 3, 2 has 0 2 of node 1, 3 has 1 3
//   the lanes     0 <-> 2, 1 <-> 3
//
// In a hierarchy one leader sends for its node, and its node scatters the result. Here each rank sends its
// share, and has its block when that is over.
//
// Cost: n copied, T_A(nodes, n/s), plus a reduce_scatter of n on a node of s ranks; n bytes in all blocks.
// Other sizes: if nodes differ in size, hierarchy runs.
// Order: that of NODE over the ranks of each node, then that of A over the nodes.
// Source: the full-lane reduce_scatter of Traff and Hunold 2020.
#include "collectives/combinators/combinators.hpp"
#include "collectives/combinators/hierarchy/hierarchy_phases.hpp"

namespace offbeat::lanes {
namespace {

Task run_on_several_nodes(Endpoint net, Call call, const Expression& self) {
  const Membership& all = net.locality()->membership;
  if (!all.has_equal_nodes()) {
    co_await hierarchies::reduce_scatter.run(net, call, self);
    co_return;
  }
  const Endpoint node = on_node(net);
  const Endpoint lane = across_nodes(net);
  const auto block = [&](int k, int member) {
    return call.input_blocks.block_of(call.input, all.rank(k, member), net.size);
  };
  const hierarchies::ListedBlocks of_lane(lane.size, [&](int k) { return block(k, node.rank).count; });
  const hierarchies::ListedBlocks of_members(node.size, [&](int member) {
    std::size_t count = 0;
    for (int k = 0; k < lane.size; ++k) count += block(k, member).count;
    return count;
  });

  const Scratch by_member = net.scratch(call.input.count, call.input.width);
  std::size_t begin = 0;
  for (int member = 0; member < node.size; ++member) {
    for (int k = 0; k < lane.size; ++k) {
      const ConstVector from = block(k, member);
      co_await net.copy(by_member.vector().slice(begin, from.count), from);
      begin += from.count;
    }
  }
  const Scratch of_node = net.scratch(of_lane.total(), call.input.width);
  Call phase = call.with_input_and_output(by_member.vector(), of_node.vector());
  phase.input_blocks = of_members.block_list();
  co_await carry_out(node, phase, self.parts[0]);
  phase = phase.with_input_and_output(of_node.vector(), call.output);
  phase.input_blocks = of_lane.block_list();
  co_await carry_out(lane, phase, self.parts[1]);
}

}  // namespace

const Algorithm reduce_scatter{
    .name = "lanes",
    .summary = "the ranks of a node combine by NODE_ALGORITHM, then each with its lane by ALGORITHM",
    .cost = "T_ALGORITHM(nodes, n/s), plus a reduce_scatter of n on a node of s ranks, and n copied",
    .serves = {Collective::reduce_scatter, Collective::reduce_scatter_block},
    .needs = {.board = OnBoard::every_node},
    .source = "Traff and Hunold 2020",
    .parameters = hierarchies::parameters,
    .run = hierarchies::run_for_placement<run_on_several_nodes>,
    .why_unsuitable = hierarchies::why_unsuitable,
};

}  // namespace offbeat::lanes
