// SPDX-License-Identifier: BSD-3-Clause
// Idea: every rank on the root's node copies the vector there. Then every rank of that node sends its share
// to the other nodes, where every rank takes all shares.
//
//   node 0: 0 1 2   node 1: 3 4 5   root 1:   NODE      1 -> 0 2
//                                             lanes     0 -> 3, 1 -> 4, 2 -> 5, a third each
//                                             node 1    3 4 5 take each other's thirds
//
// A long vector goes in segments, and each segment in shares. While one segment is in the lanes, the nodes
// copy other segments.
//
// Cost: T_A(nodes, n/s) for s ranks on a node, if a node can send for all of them at once, plus a copy of the
// first segment on the root's node and of the last one on the others.
// Other sizes: the smallest node decides how many lanes there are.
// Source: the full-lane broadcast of Traff and Hunold 2020; the overlap is ours.
#include "collectives/combinators/combinators.hpp"
#include "collectives/combinators/hierarchy/hierarchy_phases.hpp"

namespace offbeat::lanes {
namespace {

using hierarchies::FirstPhase;

// Returns the share of the rank with this member number.
Vector share_of(const Vector& segment, int lanes, int member) {
  return member < lanes ? segment.block(lanes, member) : segment.slice(0, 0);
}

// Gives the shares of all lanes to every rank of the node.
Task collect(Endpoint node, Vector segment, int lanes) {
  const hierarchies::ListedBlocks shares(node.size,
                                         [&](int member) { return share_of(segment, lanes, member).count; });
  Call call{Collective::allgatherv, shares.block_of(segment, node.rank), segment};
  call.output_blocks = shares.block_list();
  co_await hierarchies::within_node(node, call);
}

Task run_on_several_nodes(Endpoint net, Call call, const Expression& self) {
  const hierarchies::Nodes nodes(net, call.root, hierarchies::Carriers::all);
  const Endpoint node = on_node(net);
  const int lanes = nodes.all.smallest_node_size();
  const bool has_root = nodes.own_node == nodes.root_node;
  const hierarchies::PhaseSegments segments(call.output.count, call.output.width, lanes);
  // Makes the call for a part of the vector. `root` is the giver's number among the ranks that take part.
  const auto part = [&](Vector vector, bool gives, int root) {
    Call of_vector = call;
    of_vector.output = vector;
    of_vector.input = gives ? ConstVector(vector) : ConstVector{};
    of_vector.root = root;
    return of_vector;
  };
  const auto in_lane = [&](const Endpoint& lane, std::size_t k) {
    const Vector share = share_of(segments[k].part_of(call.output), lanes, node.rank);
    return carry_out(lane, part(share, has_root, nodes.root_node), self.parts[1]);
  };
  const auto within_node = [&](std::size_t k) {
    const Vector segment = segments[k].part_of(call.output);
    if (!has_root) return collect(node, segment, lanes);
    return carry_out(node, part(segment, nodes.is_leader, nodes.leader), self.parts[0]);
  };
  co_await run_in_segments(net, nodes, segments.number, has_root ? FirstPhase::node : FirstPhase::between,
                           in_lane, within_node);
}

}  // namespace

const Algorithm bcast{
    .name = "lanes",
    .summary = "copy on the root's node by NODE_ALGORITHM, then each rank of it carries a share by ALGORITHM",
    .cost = "T_ALGORITHM(nodes, n/s), s ranks on a node, overlapped with the work on the nodes",
    .serves = {Collective::bcast},
    .needs = {.board = OnBoard::every_node},
    .source = "Traff and Hunold 2020",
    .parameters = hierarchies::parameters,
    .run = hierarchies::run_for_placement<run_on_several_nodes>,
    .lanes = hierarchies::lanes_in_segments,
    .why_unsuitable = hierarchies::why_unsuitable,
};

}  // namespace offbeat::lanes
