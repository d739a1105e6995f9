// SPDX-License-Identifier: BSD-3-Clause
// Idea: first all ranks of each node arrive, then all nodes; after that all ranks may leave.
//
//   node 0: 0 1 2   node 1: 3 4     NODE      {0 1 2}  {3 4}
//                                   LEADERS   {0 3}
//                                   NODE      {0 1 2}  {3 4}
//
// Cost: T_LEADERS(nodes), plus two barriers on a node.
// Source: Open MPI's coll/han (coll_han_barrier.c).
#include "collectives/combinators/combinators.hpp"
#include "collectives/combinators/hierarchy/hierarchy_phases.hpp"

namespace offbeat::hierarchies {
namespace {

Task run_on_several_nodes(Endpoint net, Call call, const Expression& self) {
  const Nodes nodes(net);
  const Endpoint node = on_node(net);
  if (!nodes.is_alone) co_await carry_out(node, call, self.parts[0]);
  if (nodes.is_leader) co_await carry_out(nodes.leaders(net), call, self.parts[1]);
  if (!nodes.is_alone) co_await carry_out(node, call, self.parts[0]);
}

}  // namespace

const Algorithm barrier{
    .name = "hierarchy",
    .summary =
        "on each node by NODE_ALGORITHM, among one leader per node by ALGORITHM, then on each node again",
    .cost = "T_ALGORITHM(nodes, 0), plus two barriers on a node",
    .serves = {Collective::barrier},
    .needs = {.board = OnBoard::every_node},
    .source = "Open MPI's coll/han",
    .parameters = parameters,
    .run = run_for_placement<run_on_several_nodes>,
    .why_unsuitable = why_unsuitable,
};

}  // namespace offbeat::hierarchies
