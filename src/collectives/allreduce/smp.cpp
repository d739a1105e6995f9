// SPDX-License-Identifier: BSD-3-Clause
// Idea: reduce on each node to its leader, recursive doubling among the leaders, broadcast on each node.
//
//   2 nodes of 4 ranks:   node 0: 0 1 2 3   node 1: 4 5 6 7
//   reduce                0 <- 1, 2 <- 3; 0 <- 2        likewise on node 1
//   between the nodes     0 <-> 4
//   broadcast             0 -> 2; 0 -> 1, 2 -> 3        likewise on node 1
//
// One rank of each node sends to others, so long vectors do not wait for one another at the node's port, as
// in nap. `hierarchy` does this with phases that overlap.
//
// Cost: log2(nodes) (a + nb + nc), plus the phases on the nodes: 2 ceil(log2 s) (a + nb) + ceil(log2 s) nc
// for s ranks, with a and b of messages within a node; less on a board.
// Other sizes: any; surplus nodes are folded into their neighbours.
// Order: that of the reduce on each node, then that of recursive_doubling over the nodes.
// Source: Zhu, Goodell, Gropp and Thakur, EuroPVM/MPI 2009 (MPICH); "SMP" in Bienz, Olson and Gropp 2019.
#include "collectives/allreduce/allreduce.hpp"
#include "collectives/combinators/hierarchy/hierarchy_phases.hpp"

namespace offbeat::allreduce_algorithms {
namespace {

Task run(Endpoint net, Call call, const Expression&) {
  const hierarchies::Nodes nodes(net);
  const Endpoint node = on_node(net);
  if (!nodes.is_alone) {
    Call reduce{Collective::reduce, call.input, call.output, call.op};
    if (!nodes.is_leader) reduce.output.data = nullptr;
    co_await hierarchies::within_node(node, reduce);
    call.input = call.output;
  }
  if (nodes.is_leader) {
    Expression among_leaders;
    among_leaders.algorithm = &recursive_doubling;
    co_await carry_out(nodes.leaders(net), call, among_leaders);
  }
  if (!nodes.is_alone) {
    Call bcast{Collective::bcast, {}, call.output};
    if (nodes.is_leader) bcast.input = call.output;
    co_await hierarchies::within_node(node, bcast);
  }
}

}  // namespace

const Algorithm smp{
    .name = "smp",
    .summary = "reduce on each node, recursive_doubling among one leader per node, broadcast on each node",
    .cost =
        "ceil(log2 s) (2a' + 2nb' + nc) + log2(h) (a + nb + nc) + [nodes>h] (2a + 2nb + nc - (1-w) [2 "
        "nodes<=3h] a), h = pow2(nodes), less on a board",
    .serves = {Collective::allreduce},
    .needs = {.board = OnBoard::if_any},
    .source = "Zhu, Goodell, Gropp and Thakur 2009",
    .run = run,
};

}  // namespace offbeat::allreduce_algorithms
