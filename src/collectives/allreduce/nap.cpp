// SPDX-License-Identifier: BSD-3-Clause
// Idea: node-aware parallel allreduce (NAP). The nodes exchange partial results as in recursive multiplying,
// and each rank of a node exchanges with a different node.
//
//   3 nodes of 2 ranks:   node 0: 0 1   node 1: 2 3   node 2: 4 5
//   on each node          01                23            45         every rank has its node's result
//   between the nodes     0 <-> 2, 1 <-> 4, 3 <-> 5
//   on each node          01 + 23 + 45                               every rank reads what the others got
//
// If nodes have s ranks, groups have s + 1 nodes, so there are log_(s+1)(nodes) steps between nodes. One
// leader per node would need log_2(nodes). All ranks of a node send at once, so long vectors wait for one
// another at the node's port: this is for small n. Without a board groups have s nodes: rank k of a node gets
// what node k of the group has, or keeps its own, and the ranks combine that as an allreduce among
// themselves.
//
// Cost: log_(s+1)(nodes) (a + snb + snc), s ranks on a node, plus two exchanges on the board per step.
// Without a board: log_s(nodes) (a + snb) + (1 + log_s(nodes)) log2(s) (a + nb + nc), the second term with a
// and b of messages within a node (docs/explanation/models.md).
// Other sizes: groups of nodes as in recursive multiplying; the smallest node limits how large they can be.
// If a node has one rank nothing is gained, so smp runs. Every rank of a surplus node sends to a rank of its
// neighbour, + 2(a + nb) + nc.
// Order: that of arrival_tree (or recursive_doubling) on each node, then that of the nodes. All nodes of a
// group combine the same operands in the same order; the paper leaves that open.
// Source: Bienz, Olson and Gropp, EuroMPI 2019. There one rank pauses in each step, and groups have s nodes.
#include "collectives/allreduce/allreduce.hpp"
#include "collectives/combinators/hierarchy/hierarchy_phases.hpp"
#include "collectives/phases/combine_in_order.hpp"
#include "patterns/radices.hpp"

namespace offbeat::allreduce_algorithms {
namespace {

using hierarchies::ListedBlocks;
using hierarchies::within_node;

// The nodes as one rank sees them.
struct NodesOfRank {
  const Membership& all;
  const Groups groups;  // groups of nodes; the first node of each takes part in the steps
  const int node;
  const int member;
  const int size;  // of the node

  [[nodiscard]] int rank(int of_node, int number) const {
    return all.rank(of_node, number % all.size(of_node));
  }
};

// Gives all ranks of the node what its members received. Block k of `all` is what member k received.
Task share_on_node(Endpoint node, ConstVector received, Vector all, int blocks, std::size_t count) {
  const ListedBlocks member_blocks(node.size, [&](int member) { return member < blocks ? count : 0; });
  Call call{Collective::allgatherv};
  call.input = received;
  call.output = all;
  call.output_blocks = member_blocks.block_list();
  co_await within_node(node, call);
}

// Runs one step on nodes with boards. Each of radix - 1 ranks exchanges with a different node. Then every
// rank combines what the ranks of its node received with `mine`, the partial result of this node.
Task step_on_board(Endpoint net, Call call, const NodesOfRank& view, RadixStep step, int number,
                   ConstVector mine) {
  const std::size_t count = call.input.count;
  const Scratch from_node = net.scratch(count, call.input.width);
  const Scratch memory = net.scratch(static_cast<std::size_t>(step.radix - 1) * count, call.input.width);
  const int member = step.member(number);
  ConstVector received = from_node.vector().slice(0, 0);
  if (view.member < step.radix - 1) {
    const int theirs = member_among_others(member, view.member);
    const int peer_node = view.groups.leader(step.rank_of(theirs, number));
    co_await net.exchange(view.rank(peer_node, index_among_others(theirs, member)), mine, from_node.vector());
    received = from_node.vector();
  }
  const Vector all = memory.vector();
  const Endpoint node = on_node(net);
  co_await share_on_node(node, received, all, step.radix - 1, count);
  co_await combine_in_order(net, *call.op, call.output, step.radix, from_node.vector(), [&](int other) {
    const auto place = static_cast<std::size_t>(index_among_others(member, other));
    return other == member ? mine.data : all.slice(place * count, count).data;
  });
}

// Runs one step without a board. Each rank but one exchanges with a different node, and an allreduce on the
// node combines what they received.
Task step_by_messages(Endpoint net, Call call, const NodesOfRank& view, RadixStep step, int number,
                      ConstVector mine) {
  const Endpoint node = on_node(net);
  if (view.member >= step.radix) {
    co_await node.receive(view.member % step.radix, call.output);
    co_return;
  }
  const Scratch from_node = net.scratch(call.input.count, call.input.width);
  const int member = step.member(number);
  if (view.member != member) {
    const int peer_node = view.groups.leader(step.rank_of(view.member, number));
    co_await net.exchange(view.rank(peer_node, member), mine, from_node.vector());
    mine = from_node.vector();
  }
  co_await within_node(node.part({}, view.member, step.radix), call.with_input_and_output(mine, call.output));
  for (int k = view.member + step.radix; k < node.size; k += step.radix) co_await node.send(k, call.output);
}

// Runs all steps. Only the first node of each group takes part.
Task run_among_nodes(Endpoint net, Call call, const NodesOfRank& view, const Radices& radices,
                     ConstVector mine) {
  const int number = view.groups.group_of(view.node);
  const auto one = net.board() != nullptr ? step_on_board : step_by_messages;
  for (int k = 0; k < radices.steps(); ++k) {
    co_await one(net, call, view, radices[k], number, mine);
    mine = call.output;
  }
}

Task between_nodes(Endpoint net, Call call, const NodesOfRank& view, const Radices& radices,
                   ConstVector mine) {
  const int leader = view.groups.leader(view.groups.group_of(view.node));
  if (view.node != leader) {
    for (int k = view.member; k < view.all.size(leader); k += view.size)
      co_await net.send(view.all.rank(leader, k), mine);
    co_await net.receive(view.rank(leader, view.member), call.output);
    co_return;
  }
  const int members = view.groups.members(view.groups.group_of(view.node));
  {
    const Scratch theirs = net.scratch(members > 1 ? call.input.count : 0, call.input.width);
    for (int k = 1; k < members; ++k) {
      co_await net.receive(view.rank(leader + k, view.member), theirs.vector());
      co_await net.reduce(*call.op, call.output, mine, theirs.vector());
      mine = call.output;
    }
  }
  co_await run_among_nodes(net, call, view, radices, mine);
  for (int k = 1; k < members; ++k) {
    for (int j = view.member; j < view.all.size(leader + k); j += view.size)
      co_await net.send(view.all.rank(leader + k, j), call.output);
  }
}

Task run(Endpoint net, Call call, const Expression& self) {
  if (node_count(net) == 1) {
    co_await within_node(net, call);
    co_return;
  }
  const Membership& all = net.locality()->membership;
  if (all.smallest_node_size() == 1) {
    co_await smp.run(net, call, self);
    co_return;
  }
  const Radices radices(all.nodes(), all.smallest_node_size() + (net.board() != nullptr ? 1 : 0));
  const NodesOfRank view{.all = all,
                         .groups = {all.nodes(), radices.product()},
                         .node = net.locality()->node,
                         .member = net.locality()->member,
                         .size = all.size(net.locality()->node)};
  co_await within_node(on_node(net), call);
  co_await between_nodes(net, call, view, radices, call.output);
}

}  // namespace

const Algorithm nap{
    .name = "nap",
    .summary = "nodes exchange as in recursive_multiplying, each rank with a different node; small messages",
    .cost =
        "ceil(log2 s) (a' + nb' + nc) + sum(r in radices(nodes, max(s, 2)): a + nb + ceil(log2 r) (nc +"
        " [s>1] (a' + nb')) + [r<s] (a' + (ceil(s/r) - 1) nb')) + [nodes>h] (2a + 2nb + nc - (1-w) "
        "[nodes<=h+h/last(nodes, max(s, 2))] a), h = product(nodes, max(s, 2)), less on a board",
    .serves = {Collective::allreduce},
    .needs = {.board = OnBoard::if_any},
    .source = "Bienz, Olson and Gropp 2019",
    .run = run,
};

}  // namespace offbeat::allreduce_algorithms
