// SPDX-License-Identifier: BSD-3-Clause
// Idea: one message for each pair of nodes. The leader of each node collects what its node sends, the leaders
// exchange what goes from node to node, and every rank takes its own blocks on its node.
//
//   node 0: 0 1   node 1: 2 3      gather    0 has what 0 and 1 send, 2 what 2 and 3 send
//                                  LEADERS   0 -> 2: 02 03 12 13   2 -> 0: 20 21 30 31   (from, to)
//                                  scatter   0 -> 1: 01 11 21 31   2 -> 3: 03 13 23 33
//
// A leader arranges the blocks twice: by destination node, and by destination rank. NODE has no effect beyond
// choosing the board, where the phases use its gather and scatter. In an alltoallv a rank knows only its own
// lengths, so the leaders first collect and exchange the lengths.
//
// Cost: T_LEADERS(nodes, s^2 m), plus a gather and a scatter of spm on a node, and 2 spm copied by its
// leader; p ranks, s of them on a node, m bytes in a block.
// Other sizes: if the nodes differ in size, `pairwise` replaces a LEADERS that needs equal blocks.
// Source: Traff and Rougier, EuroMPI 2014.
#include "collectives/alltoall/alltoall.hpp"

#include <algorithm>

#include "collectives/combinators/combinators.hpp"
#include "collectives/combinators/hierarchy/hierarchy_phases.hpp"

namespace offbeat::hierarchies {
namespace {

// Ranks are counted by their places in the order of the nodes: place k is rank by_node()[k].

// The lengths of the blocks that go between the members of one node and all places.
struct BlockLengths {
  int members = 0;
  int places = 0;
  std::size_t each = 0;                  // the length of every block if there are no lists
  const std::size_t* rows = nullptr;     // for each member, the lengths of its blocks for all places
  const std::size_t* columns = nullptr;  // for each place, the lengths of its blocks for all members

  [[nodiscard]] std::size_t sent(int member, int place) const {
    return rows == nullptr ? each : rows[member * places + place];
  }
  [[nodiscard]] std::size_t received(int place, int member) const {
    return columns == nullptr ? each : columns[place * members + member];
  }
  // Returns how much a member sends to a node.
  [[nodiscard]] std::size_t sent(int member, const Membership& all, int node) const {
    std::size_t sum = 0;
    for (int k = 0; k < all.size(node); ++k) sum += sent(member, all.begin_of(node) + k);
    return sum;
  }
  // The blocks that all members together send to each node, and receive from each node.
  [[nodiscard]] ListedBlocks blocks_to_nodes(const Membership& all) const {
    return ListedBlocks(all.nodes(), [&](int node) {
      std::size_t sum = 0;
      for (int member = 0; member < members; ++member) sum += sent(member, all, node);
      return sum;
    });
  }
  [[nodiscard]] ListedBlocks blocks_from_nodes(const Membership& all) const {
    return ListedBlocks(all.nodes(), [&](int node) {
      std::size_t sum = 0;
      for (int k = 0; k < all.size(node); ++k)
        for (int member = 0; member < members; ++member) sum += received(all.begin_of(node) + k, member);
      return sum;
    });
  }
};

// An array of lengths. It has memory even if the vectors of the call are phantoms, because every phase needs
// the lengths.
class Lengths {
 public:
  explicit Lengths(std::size_t count) : memory_(true, count, sizeof(std::size_t)) {
    std::fill_n(data(), count, std::size_t{0});
  }
  [[nodiscard]] std::size_t* data() const { return reinterpret_cast<std::size_t*>(memory_.vector().data); }
  [[nodiscard]] Vector bytes() const { return {memory_.vector().data, memory_.vector().bytes(), 1}; }

 private:
  Scratch memory_;
};

// Exchanges the blocks of whole nodes among the leaders. `collected` has the blocks that the members of this
// node send, member by member, in the order of the places. `result` gets the blocks that they receive, place
// by place, in the order of the members.
Task exchange(Endpoint leaders, const Nodes& nodes, const Expression& by, ConstVector collected,
              BlockLengths traffic, Vector result) {
  const ListedBlocks to = traffic.blocks_to_nodes(nodes.all);
  const ListedBlocks from = traffic.blocks_from_nodes(nodes.all);
  const Scratch by_node = leaders.scratch(nodes.is_alone ? 0 : collected.count, collected.width);
  const Lengths filled(static_cast<std::size_t>(nodes.count));
  std::size_t done = 0;
  for (int member = 0; member < nodes.size && !nodes.is_alone; ++member) {
    for (int node = 0; node < nodes.count; ++node) {
      std::size_t& place = filled.data()[node];
      const std::size_t length = traffic.sent(member, nodes.all, node);
      co_await leaders.copy(to.block_of(by_node.vector(), node).slice(place, length),
                            collected.slice(done, length));
      place += length;
      done += length;
    }
  }
  Call call{Collective::alltoallv, nodes.is_alone ? collected : ConstVector(by_node.vector()), result};
  if (traffic.rows == nullptr && nodes.all.has_equal_nodes()) {
    call.collective = Collective::alltoall;
  } else {
    call.input_blocks = to.block_list();
    call.output_blocks = from.block_list();
  }
  Expression pairwise;
  pairwise.algorithm = &alltoall_algorithms::pairwise;
  const bool suits = by.algorithm->serves.contain(call.collective);
  const Expression* const chosen = suits ? &by : &pairwise;
  co_await carry_out(leaders, call, *chosen);
}

// Rearranges what a leader received: `by_place` has the blocks for all members, place by place, and `result`
// gets the blocks of all places, member by member.
Task order_by_member(Endpoint net, BlockLengths traffic, ConstVector by_place, const ListedBlocks& members,
                     Vector result) {
  const Lengths filled(static_cast<std::size_t>(traffic.members));
  std::size_t done = 0;
  for (int place = 0; place < traffic.places; ++place) {
    for (int member = 0; member < traffic.members; ++member) {
      std::size_t& end = filled.data()[member];
      const std::size_t length = traffic.received(place, member);
      co_await net.copy(members.block_of(result, member).slice(end, length), by_place.slice(done, length));
      end += length;
      done += length;
    }
  }
}

// Gathers the blocks of all members at the leader of a node; only the leader's `all` has memory for them.
Task gather_at_leader(Endpoint node, ConstVector mine, const ListedBlocks& members, Vector all) {
  Call call{Collective::gather, mine, all};
  call.output_blocks = members.block_list();
  return within_node(node, call);
}

// Scatters the blocks of all members from the leader.
Task scatter_from_leader(Endpoint node, ConstVector all, const ListedBlocks& members, Vector mine) {
  Call call{Collective::scatter, all, mine};
  call.input_blocks = members.block_list();
  return within_node(node, call);
}

// Totals says how much a rank sends and receives in all.
struct Totals {
  std::size_t sent = 0;
  std::size_t received = 0;
};

// Runs the call on a node of several ranks: to the leader, to the other leaders, and back.
Task run_through_leader(Endpoint net, const Nodes& nodes, const Expression& by, Totals mine, ConstVector sent,
                        BlockLengths traffic, Vector received) {
  const Endpoint node = on_node(net);
  const auto size = static_cast<std::size_t>(nodes.size);
  const Lengths totals(2 * size);
  const Vector own{reinterpret_cast<std::byte*>(&mine), sizeof mine, 1};
  co_await within_node(node, {Collective::allgather, own, totals.bytes()});
  const ListedBlocks given(nodes.size, [&](int member) { return totals.data()[2 * member]; });
  const ListedBlocks taken(nodes.size, [&](int member) { return totals.data()[2 * member + 1]; });

  const Scratch collected = net.scratch(nodes.is_leader ? given.total() : 0, 1);
  const Scratch by_member = net.scratch(nodes.is_leader ? taken.total() : 0, 1);
  co_await gather_at_leader(node, sent, given, collected.vector());
  if (nodes.is_leader) {
    const Scratch by_place = net.scratch(taken.total(), 1);
    const Endpoint leaders = nodes.leaders(net);
    co_await exchange(leaders, nodes, by, collected.vector(), traffic, by_place.vector());
    co_await order_by_member(net, traffic, by_place.vector(), taken, by_member.vector());
  }
  co_await scatter_from_leader(node, by_member.vector(), taken, received);
}

// Collects and exchanges the lengths that a leader needs in an alltoallv.
Task exchange_lengths(Endpoint net, const Nodes& nodes, const Expression& by, const Lengths& row,
                      BlockLengths traffic, const Lengths& rows, const Lengths& columns) {
  if (!nodes.is_alone) {
    const Endpoint node = on_node(net);
    co_await within_node(node, {Collective::gather, row.bytes(), rows.bytes()});
  }
  if (!nodes.is_leader) co_return;
  const Endpoint leaders = nodes.leaders(net);
  co_await exchange(leaders, nodes, by, nodes.is_alone ? row.bytes() : rows.bytes(), traffic,
                    columns.bytes());
}

Task run_on_several_nodes(Endpoint net, Call call, const Expression& self) {
  const Nodes nodes(net);
  const Membership& all = nodes.all;
  const bool has_lists = call.collective == Collective::alltoallv;
  const bool collects = nodes.is_leader && !nodes.is_alone;
  const auto p = static_cast<std::size_t>(net.size);
  const auto size = static_cast<std::size_t>(nodes.size);
  const auto given = [&](int rank) { return call.input_blocks.block_of(call.input, rank, net.size); };
  const auto place = [&](int rank) { return call.output_blocks.block_of(call.output, rank, net.size); };

  Totals mine{call.input.count, call.output.count};
  BlockLengths traffic{.members = nodes.size, .places = net.size, .each = call.input.count / p};
  const Lengths row(has_lists ? p : 0);
  const Lengths rows(has_lists && collects ? size * p : 0);
  const Lengths columns(has_lists && nodes.is_leader ? size * p : 0);
  if (has_lists) {
    mine = {};
    for (std::size_t k = 0; k < p; ++k) {
      row.data()[k] = given(all.by_node()[k]).count;
      mine.sent += row.data()[k];
      mine.received += place(all.by_node()[k]).count;
    }
    BlockLengths of_numbers = traffic;
    of_numbers.each = sizeof(std::size_t);
    co_await exchange_lengths(net, nodes, self.parts[1], row, of_numbers, rows, columns);
    traffic.rows = nodes.is_alone ? row.data() : rows.data();
    traffic.columns = columns.data();
  }

  // The blocks in the order of the places: in the vectors of the call, or else in separate memory.
  const ConstVector input = blocks_in_node_order(call.input, call.input_blocks, all);
  const Vector output = blocks_in_node_order(call.output, call.output_blocks, all);
  const bool turns_input = input.count < mine.sent;
  const bool turns_output = output.count < mine.received;
  const Scratch turned_input = net.scratch(turns_input ? mine.sent : 0, 1);
  const Scratch turned_output = net.scratch(turns_output ? mine.received : 0, 1);
  const ConstVector sent = turns_input ? ConstVector(turned_input.vector()) : input;
  const Vector received = turns_output ? turned_output.vector() : output;
  std::size_t done = 0;
  for (std::size_t k = 0; turns_input && k < p; ++k) {
    const ConstVector from = given(all.by_node()[k]);
    co_await net.copy(turned_input.vector().slice(done, from.count), from);
    done += from.count;
  }

  if (nodes.is_alone) {
    const Endpoint leaders = nodes.leaders(net);
    co_await exchange(leaders, nodes, self.parts[1], sent, traffic, received);
  } else {
    co_await run_through_leader(net, nodes, self.parts[1], mine, sent, traffic, received);
  }

  done = 0;
  for (std::size_t k = 0; turns_output && k < p; ++k) {
    const Vector to = place(all.by_node()[k]);
    co_await net.copy(to, received.slice(done, to.count));
    done += to.count;
  }
}

}  // namespace

const Algorithm alltoall{
    .name = "hierarchy",
    .summary = "gather on each node, one message for each pair of nodes by ALGORITHM, scatter on each node",
    .cost =
        "T_ALGORITHM(nodes, s^2 m), plus a gather and a scatter of spm on a node and 2 spm copied, s ranks "
        "on a node",
    .serves = {Collective::alltoall, Collective::alltoallv},
    .needs = {.board = OnBoard::every_node},
    .source = "Traff and Rougier 2014",
    .parameters = parameters,
    .run = run_for_placement<run_on_several_nodes>,
    .why_unsuitable = why_unsuitable,
};

}  // namespace offbeat::hierarchies
