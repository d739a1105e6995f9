// SPDX-License-Identifier: BSD-3-Clause
// Idea: in each step groups of up to K ranks divide the blocks that they still combine. Each rank keeps one
// part, gives each other rank its part, and gets K - 1 operands for its own. `recursive_halving` is the
// algorithm with K = 2.
//
//   p = 4, K = 2, blocks kept   rank 0   rank 1   rank 2   rank 3
//   distance 2, two each         01       01       23       23
//   distance 1, one each         0        1        2        3
//
//   p = 9, K = 3   {0 3 6} {1 4 7} {2 5 8} keep 012, 345, 678   then   {0 1 2} {3 4 5} {6 7 8} one block each
//
// A larger K means fewer steps, each with K - 1 messages at once. It is for short blocks, where a message
// travels much longer than it takes to send.
//
// Cost: log_K(p) a + (p-1) m (b + c), m bytes in a block; with K = 2 the fewest bytes in steps of one
// message.
// Other sizes: the radices of the steps multiply to the largest number of ranks without a prime factor above
// K. Each surplus rank hands its input to the rank before it and gets its block at the end, + 2a + (p+1) mb +
// pmc. A step takes as long as the longest of its messages.
// Order: a balanced tree over the ranks, those farthest apart first, in rank order in each group; it is equal
// for all blocks.
// Source: Thakur, Rabenseifner and Gropp, IJHPCA 19(1), 2005; any K is ours, as in recursive_multiplying.
#include "collectives/phases/combine_in_order.hpp"
#include "collectives/phases/exchange.hpp"
#include "collectives/reduce_scatter/reduce_scatter.hpp"
#include "patterns/radices.hpp"

namespace offbeat::reduce_scatter_algorithms {
namespace {

// Runs the steps among the leaders of groups, as many as the radices multiply to. A leader's output gets the
// blocks of its whole group.
Task split(Endpoint leaders, Call call, Groups groups, Radices radices) {
  // Returns the number of elements in the blocks of groups [first, first + number), which follow one another.
  const auto elements = [&](int first, int number) {
    const int begin = groups.leader(first);
    const int ranks = groups.leader(first + number) - begin;
    return call.input_blocks.consecutive_blocks(call.input, begin, ranks, groups.ranks).count;
  };
  const int rank = leaders.rank;
  const int last = radices.steps() - 1;  // ranks are farthest apart in this step, which comes first
  const std::size_t most = elements(rank - rank % radices[last].distance, radices[last].distance);
  const Scratch scratch = leaders.scratch((1 + radices.max_others_in_group()) * most, call.input.width);
  const Vector received = scratch.vector().slice(most, scratch.vector().count - most);
  Vector partial = scratch.first(most);
  ConstVector mine = call.input;
  for (int k = last; k >= 0; --k) {
    const RadixStep step = radices[k];
    const int member = step.member(rank);
    const int first = rank - rank % (step.radix * step.distance);
    const auto begin_of = [&](int other) { return elements(first, other * step.distance); };
    const auto part_of = [&](int other) {
      return mine.slice(begin_of(other), elements(first + other * step.distance, step.distance));
    };
    const ConstVector kept = part_of(member);
    const auto theirs = [&](int other) {
      return received.slice(static_cast<std::size_t>(index_among_others(member, other)) * kept.count,
                            kept.count);
    };
    // Each rank begins with a different peer.
    co_await leaders.concurrently_on_shared_lanes(step.radix - 1, [&](const Endpoint& lane, int j) {
      const int to = (member + 1 + j) % step.radix;
      const int from = (member + step.radix - 1 - j) % step.radix;
      return exchange(lane, step.rank_of(to, rank), part_of(to), step.rank_of(from, rank), theirs(from));
    });
    partial = partial.slice(k == last ? 0 : begin_of(member), kept.count);
    const Vector combined = k == 0 ? call.output : partial;
    co_await combine_in_order(leaders, *call.op, combined, step.radix, received.slice(0, kept.count),
                              [&](int other) { return other == member ? kept.data : theirs(other).data; });
    mine = combined;
  }
}

Task run_with(Endpoint net, Call call, int radix) {
  // Each group has one or two ranks: the number of groups is at least the largest power of two.
  const Radices radices(net.size, radix);
  const Groups groups{net.size, radices.product()};
  const int group = groups.group_of(net.rank);
  const int leader = groups.leader(group);
  const int second = leader + 1;
  if (net.rank != leader) {
    co_await net.send(leader, call.input);
    co_await net.receive(leader, call.output);
    co_return;
  }
  const Endpoint leaders = net.part(groups.leaders(), group, groups.group_count);
  if (groups.members(group) == 1) {
    co_await split(leaders, call, groups, radices);
    co_return;
  }
  const Scratch scratch = net.scratch(call.input.count, call.input.width);
  const Vector& both = scratch.vector();
  co_await net.receive(second, both);
  co_await net.reduce(*call.op, both, call.input, both);
  const Vector own = call.input_blocks.block_of(both, leader, net.size);
  const Vector other = call.input_blocks.block_of(both, second, net.size);
  Vector ours = own;
  ours.count += other.count;
  co_await split(leaders, call.with_input_and_output(both, ours), groups, radices);
  co_await net.send(second, other);
  co_await net.copy(call.output, own);
}

constexpr Parameter parameters[] = {Parameter::radix};

}  // namespace

const Algorithm recursive_halving{
    .name = "recursive_halving",
    .summary = "in each step a rank gives away half of the blocks that it still combines; short blocks",
    .cost =
        "log2(q) a + sum(k < log2(q): ceil(2^k p/q)) m (b + c) + [p>q] (2a + (p+1) mb + pmc - (1-w) "
        "[2p<=3q] a), m bytes in a block",
    .serves = {Collective::reduce_scatter, Collective::reduce_scatter_block},
    .source = "Thakur, Rabenseifner and Gropp 2005",
    .run = [](Endpoint net, Call call, const Expression&) { return run_with(net, call, 2); },
};

const Algorithm recursive_splitting{
    .name = "recursive_splitting",
    .summary =
        "log_K(p) steps, in each of which groups of K ranks divide what they still combine; short blocks",
    .cost =
        "sum(r in radices(p, K): a + (r-2) (1-w) o) + (p - p/h) m (b + c) + [p>h] (2a + (p+1) mb + pmc - "
        "(1-w) [p<=h+h/last(p, K)] (a + (p - p/last(p, K)) mb)), h = product(p, K)",
    .serves = {Collective::reduce_scatter, Collective::reduce_scatter_block},
    .source = "Thakur, Rabenseifner and Gropp 2005",
    .parameters = parameters,
    .run = [](Endpoint net, Call call, const Expression& self) { return run_with(net, call, self.radix); },
};

}  // namespace offbeat::reduce_scatter_algorithms
