// SPDX-License-Identifier: BSD-3-Clause
// Idea: in each step a rank exchanges with a rank of the other half of the ranks. It gives away half of the
// blocks that it still combines, and gets the other rank's part of the half that it keeps.
//
//   p = 4, blocks kept     rank 0   rank 1   rank 2   rank 3
//   distance 2, two each    01       01       23       23
//   distance 1, one each    0        1        2        3
//
// Cost: log2(p) a + (p-1) m (b + c), m bytes in a block: the fewest steps and the fewest bytes.
// Other sizes: if p is not a power of two, each surplus rank hands its input to the rank before it and gets
// its block at the end, + 2a + (p+1) mb + pmc. A step takes as long as the longer of its messages.
// Order: a balanced tree over the ranks, those farthest apart first; it is equal for all blocks.
// Source: Thakur, Rabenseifner and Gropp, IJHPCA 19(1), 2005.
#include <bit>

#include "collectives/reduce_scatter/reduce_scatter.hpp"

namespace offbeat::reduce_scatter_algorithms {
namespace {

// Runs the algorithm among the leaders of groups, a power of two of them. A leader's output gets the blocks
// of its whole group.
Task halving(Endpoint leaders, Call call, Groups groups) {
  // Returns the number of elements in the blocks of groups [first, first + number), which follow one another.
  const auto elements = [&](int first, int number) {
    std::size_t count = 0;
    for (int rank = groups.leader(first); rank < groups.leader(first + number); ++rank)
      count += call.input_blocks.block_of(call.input, rank, groups.ranks).count;
    return count;
  };
  const int half = groups.group_count / 2;
  const std::size_t most = elements(leaders.rank & half, half);
  const Scratch scratch = leaders.scratch(2 * most, call.input.width);  // what leaves, and what comes
  std::size_t place = 0;
  ConstVector mine = call.input;
  for (int distance = half; distance > 0; distance /= 2) {
    const int peer = leaders.rank ^ distance;
    const std::size_t middle = elements(leaders.rank & -(2 * distance), distance);
    const ConstVector lower = mine.slice(0, middle);
    const ConstVector upper = mine.slice(middle, mine.count - middle);
    const ConstVector kept = leaders.rank < peer ? lower : upper;
    const Vector theirs = scratch.vector().slice(place, kept.count);
    const Vector combined = distance == 1 ? call.output : theirs;
    co_await leaders.exchange(peer, leaders.rank < peer ? upper : lower, theirs);
    co_await leaders.reduce_by_rank(*call.op, combined, peer, kept, theirs);
    mine = combined;
    place = most - place;
  }
}

Task run(Endpoint net, Call call, const Expression&) {
  // Each group has one or two ranks, and the number of groups is a power of two.
  const Groups groups{net.size, static_cast<int>(std::bit_floor(static_cast<unsigned>(net.size)))};
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
    co_await halving(leaders, call, groups);
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
  co_await halving(leaders, call.with_input_and_output(both, ours), groups);
  co_await net.send(second, other);
  co_await net.copy(call.output, own);
}

}  // namespace

const Algorithm recursive_halving{
    .name = "recursive_halving",
    .summary = "in each step a rank gives away half of the blocks that it still combines; short blocks",
    .cost =
        "log2(q) a + sum(k < log2(q): ceil(2^k p/q)) m (b + c) + [p>q] (2a + (p+1) mb + pmc - (1-w) "
        "[2p<=3q] a), m bytes in a block",
    .serves = {Collective::reduce_scatter, Collective::reduce_scatter_block},
    .source = "Thakur, Rabenseifner and Gropp 2005",
    .run = run,
};

}  // namespace offbeat::reduce_scatter_algorithms
