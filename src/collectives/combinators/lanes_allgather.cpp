// SPDX-License-Identifier: BSD-3-Clause
// Idea: every rank exchanges its block with the ranks that have its member number on the other nodes. Then
// the ranks of each node give one another what they have.
//
//   node 0: 0 1   node 1: 2 3   node 2: 4 5
//   the lanes     0 <-> 2 <-> 4 have 024, 1 <-> 3 <-> 5 have 135
//   NODE          0 and 1 have 024 and 135, and so have 2 and 3, 4 and 5
//
// In a hierarchy all ranks of a node copy what one leader has. Here each rank reads an equal part from every
// other rank of its node, so no core hands over the whole result.
//
// Cost: T_A(nodes, m), plus (p - nodes) m copied on a node; m bytes in a block.
// Other sizes: if nodes differ in size, hierarchy replaces it.
// Source: the full-lane allgather of Traff and Hunold 2020.
#include "collectives/combinators/combinators.hpp"
#include "collectives/combinators/hierarchy/hierarchy_phases.hpp"

namespace offbeat::lanes {
namespace {

// Blocks of at least this length take one allgather on the node for each node, which puts them into their
// places. Shorter ones take one allgather together, and each rank copies them to their places: further
// allgathers would take longer than these copies.
constexpr std::size_t shortest_by_node = std::size_t{4} << 10;

Task run_on_several_nodes(Endpoint net, Call call, const Expression& self) {
  const Membership& all = net.locality()->membership;
  const Endpoint node = on_node(net);
  const Endpoint lane = across_nodes(net);
  const Scratch in_lane =
      net.scratch(call.input.count * static_cast<std::size_t>(lane.size), call.input.width);
  const Vector mine = in_lane.vector();  // for each node, the block of its rank in this lane
  co_await carry_out(lane, call.with_input_and_output(call.input, mine), self.parts[1]);

  if (all.is_in_rank_order() && call.input.bytes() >= shortest_by_node) {
    for (int k = 0; k < lane.size; ++k) {
      const Vector of_node = call.output.blocks(net.size, k * node.size, node.size);
      co_await carry_out(node, call.with_input_and_output(mine.block(lane.size, k), of_node), self.parts[0]);
    }
    co_return;
  }
  const Scratch by_member = net.scratch(call.output.count, call.output.width);
  co_await carry_out(node, call.with_input_and_output(mine, by_member.vector()), self.parts[0]);
  for (int member = 0; member < node.size; ++member) {
    for (int k = 0; k < lane.size; ++k) {
      co_await net.copy(call.output.block(net.size, all.rank(k, member)),
                        by_member.vector().block(net.size, member * lane.size + k));
    }
  }
}

}  // namespace

const Algorithm allgather{
    .name = "lanes",
    .summary = "each rank of a node exchanges its block by ALGORITHM, then all on the node by NODE_ALGORITHM",
    .cost = "T_ALGORITHM(nodes, m), plus (p - nodes) m copied on a node",
    .serves = {Collective::allgather},
    .needs = {.board = OnBoard::every_node},
    .source = "Traff and Hunold 2020",
    .parameters = hierarchies::parameters,
    .run = hierarchies::run_for_placement<run_on_several_nodes>,
    .for_unequal_nodes = &hierarchies::allgather,
    .lanes = hierarchies::lanes_in_segments,
    .why_unsuitable = hierarchies::why_unequal_or_unsuitable,
};

}  // namespace offbeat::lanes
