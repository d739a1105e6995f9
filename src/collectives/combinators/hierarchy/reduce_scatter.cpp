// SPDX-License-Identifier: BSD-3-Clause
// Idea: each node combines for its leader, the leaders combine the blocks of whole nodes, and every rank
// takes its own block on its node.
//
//   node 0: 0 1 2   node 1: 3 4     reduce    node 0 -> 0, node 1 -> 3: 01234
//                                   LEADERS   0 has 012, 3 has 34
//                                   scatter   0 -> 1 2, 3 -> 4
//
// NODE only says that the nodes work on their boards; they use the board's algorithms of reduce, of scatter
// and, for short blocks, of bcast.
//
// Cost: T_LEADERS(nodes, blocks of the nodes), plus a reduce of n and a scatter on a node; n bytes in all
// blocks.
// Other sizes: if the ranks of a node do not follow one another, its leader puts the blocks in the order of
// the nodes.
// Order: that of the board's reduce over the ranks of each node, then that of LEADERS over the nodes.
// Source: ours.
#include "collectives/combinators/combinators.hpp"
#include "collectives/combinators/hierarchy/hierarchy_phases.hpp"

namespace offbeat::hierarchies {
namespace {

// Gives each rank its block of what the leader has. If all blocks together fit a slot, each rank gets all.
Task scatter_on_node(Endpoint node, Vector of_node, const ListedBlocks& members, Vector own) {
  const bool is_leader = node.rank == 0;
  if (node.board() == nullptr || members.total() * own.width > BoardShape::inline_bytes) {
    Call within{Collective::scatter, of_node, own};
    within.input_blocks = members.block_list();
    co_await within_node(node, within);
    co_return;
  }
  const Scratch memory = node.scratch(is_leader ? 0 : members.total(), own.width);
  const Vector all = is_leader ? of_node : memory.vector();
  const Vector bytes{all.data, all.bytes(), 1};
  co_await within_node(node, {Collective::bcast, is_leader ? ConstVector(bytes) : ConstVector{}, bytes});
  co_await node.copy(own, members.block_of(ConstVector(all), node.rank));
}

Task run_on_several_nodes(Endpoint net, Call call, const Expression& self) {
  const Nodes nodes(net);
  const Endpoint node = on_node(net);
  const Membership& all = nodes.all;
  const std::size_t width = call.input.width;
  const bool collects = nodes.is_leader && !nodes.is_alone;
  const bool is_reordered = nodes.is_leader && !all.is_in_rank_order();
  const auto block = [&](ConstVector vector, int rank) {
    return call.input_blocks.block_of(vector, rank, net.size);
  };
  const auto count_of = [&](int rank) { return block(call.input, rank).count; };

  const Scratch memory = net.scratch(collects ? call.input.count : 0, width);
  ConstVector sum = call.input;
  if (!nodes.is_alone) {
    const Vector result{memory.vector().data, call.input.count, width};
    Call within{Collective::reduce, call.input, result, call.op};
    co_await within_node(node, within);
    sum = result;
  }

  const Scratch by_node = net.scratch(is_reordered ? call.input.count : 0, width);
  if (is_reordered) {
    std::size_t begin = 0;
    for (const int rank : all.by_node()) {
      const ConstVector from = block(sum, rank);
      co_await net.copy(by_node.vector().slice(begin, from.count), from);
      begin += from.count;
    }
    sum = by_node.vector();
  }

  const auto here = all.members(nodes.own_node);
  const ListedBlocks members(nodes.size, [&](int k) { return count_of(here[static_cast<std::size_t>(k)]); });
  const Scratch of_node = net.scratch(collects ? members.total() : 0, width);
  if (nodes.is_leader) {
    const ListedBlocks of_nodes = call.input_blocks.counts == nullptr
                                      ? blocks_of_nodes(all, call.output.count)
                                      : blocks_of_nodes(all, count_of);
    Call between = call.with_input_and_output(sum, nodes.is_alone ? call.output : of_node.vector());
    between.collective = Collective::reduce_scatter;
    between.input_blocks = of_nodes.block_list();
    co_await carry_out(nodes.leaders(net), between, self.parts[1]);
  }
  if (!nodes.is_alone) co_await scatter_on_node(node, of_node.vector(), members, call.output);
}

}  // namespace

const Algorithm reduce_scatter{
    .name = "hierarchy",
    .summary = "combine on each node, among one leader per node by ALGORITHM, then scatter on each node",
    .cost = "T_ALGORITHM(nodes, n), plus a reduce of all and a scatter on a node",
    .serves = {Collective::reduce_scatter, Collective::reduce_scatter_block},
    .needs = {.board = OnBoard::every_node},
    .source = "offbeat",
    .parameters = parameters,
    .lease = lease_of_vector_in_pieces,
    .run = run_for_placement<run_on_several_nodes>,
    .why_unsuitable = why_unsuitable,
};

}  // namespace offbeat::hierarchies
