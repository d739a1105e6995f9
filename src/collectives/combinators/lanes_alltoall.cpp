// SPDX-License-Identifier: BSD-3-Clause
// Idea: the ranks of a node first exchange blocks, so that each has what goes to the ranks with its member
// number on all nodes. Then every rank sends one message to each other node.
//
//   node 0: 0 1   node 1: 2 3   what 0 and 1 have to send, by destination: 0: 0123   1: 0123
//   NODE          0 has what both send to 0 and 2, 1 what both send to 1 and 3
//   the lanes     0 <-> 2, 1 <-> 3: two blocks in each message
//
// A rank sends nodes - 1 messages between nodes instead of p - s, and they are s times as long. No leader
// arranges the blocks of its whole node.
//
// Cost: T_A(nodes, sm), plus an alltoall on a node of s ranks with blocks of nodes m, and 2pm copied; p
// ranks, m bytes in a block.
// Other sizes: if nodes differ in size, hierarchy replaces it.
// Source: the full-lane alltoall of Traff and Hunold 2020.
#include "collectives/combinators/combinators.hpp"
#include "collectives/combinators/hierarchy/hierarchy_phases.hpp"

namespace offbeat::lanes {
namespace {

Task run_on_several_nodes(Endpoint net, Call call, const Expression& self) {
  const Membership& all = net.locality()->membership;
  const Endpoint node = on_node(net);
  const Endpoint lane = across_nodes(net);
  const Scratch one = net.scratch(call.input.count, call.input.width);
  const Scratch other = net.scratch(call.input.count, call.input.width);
  const Vector given = one.vector();
  const Vector taken = other.vector();
  // Sorts the blocks by the member that they go to, and those for one member by node.
  for (int member = 0; member < node.size; ++member) {
    for (int k = 0; k < lane.size; ++k) {
      co_await net.copy(given.block(net.size, member * lane.size + k),
                        call.input.block(net.size, all.rank(k, member)));
    }
  }
  const Call whole{Collective::alltoall, given, taken};
  co_await carry_out(node, whole, self.parts[0]);
  // Sorts what the members gave by node.
  for (int k = 0; k < lane.size; ++k) {
    for (int member = 0; member < node.size; ++member) {
      co_await net.copy(given.block(net.size, k * node.size + member),
                        taken.block(net.size, member * lane.size + k));
    }
  }
  const bool is_in_place = all.is_in_rank_order();
  co_await carry_out(lane, whole.with_input_and_output(given, is_in_place ? call.output : taken),
                     self.parts[1]);
  for (int k = 0; k < lane.size && !is_in_place; ++k) {
    for (int member = 0; member < node.size; ++member) {
      co_await net.copy(call.output.block(net.size, all.rank(k, member)),
                        taken.block(net.size, k * node.size + member));
    }
  }
}

}  // namespace

const Algorithm alltoall{
    .name = "lanes",
    .summary =
        "the ranks of a node sort their blocks by NODE_ALGORITHM, then each sends to every node by ALGORITHM",
    .cost =
        "T_ALGORITHM(nodes, sm), plus an alltoall of blocks of nodes m on a node and 2 pm copied, s ranks on "
        "a node",
    .serves = {Collective::alltoall},
    .needs = {.board = OnBoard::every_node},
    .source = "Traff and Hunold 2020",
    .parameters = hierarchies::parameters,
    .lease = hierarchies::lease_of_vector_in_pieces,
    .run = hierarchies::run_for_placement<run_on_several_nodes>,
    .for_unequal_nodes = &hierarchies::alltoall,
    .why_unsuitable = hierarchies::why_unequal_or_unsuitable,
};

}  // namespace offbeat::lanes
