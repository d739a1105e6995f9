// SPDX-License-Identifier: BSD-3-Clause
// Idea: each node combines, then one leader of each node combines with the other leaders, and then each node
// copies. This is `lanes` with one lane, that of the leaders (combinators/lanes.cpp).
//
//   hierarchy(NODE, LEADERS)   node phase on the board by NODE, an allreduce among the leaders by LEADERS
//
// The phases overlap: while the leaders exchange one segment, the node combines the next one and copies the
// one before.
//
// Cost: T_LEADERS(nodes, n), plus the nodes' work before the first segment and after the last one.
// Order: that of NODE on each node, then that of LEADERS over the nodes.
// Source: Alizadeh et al. 2022, section 4; the overlap is ours.
#include "collectives/combinators/combinators.hpp"
#include "collectives/combinators/hierarchy/hierarchy_phases.hpp"

namespace offbeat::hierarchies {
namespace {

Task run_among_leaders(Endpoint net, Call call, const Expression& self) {
  return run_in_lanes(net, call, self, 1);
}

}  // namespace

const Algorithm allreduce{
    .name = "hierarchy",
    .summary =
        "combine on each node by NODE_ALGORITHM, among one leader per node by ALGORITHM, copy on each node",
    .cost = "T_ALGORITHM(nodes, n), overlapped with the work on the nodes",
    .serves = {Collective::allreduce},
    .needs = {.board = OnBoard::every_node},
    .source = "Alizadeh et al. 2022",
    .parameters = parameters,
    .run = run_for_placement<run_among_leaders>,
    .lanes = lanes_in_segments,
    .why_unsuitable = why_unsuitable,
};

}  // namespace offbeat::hierarchies
