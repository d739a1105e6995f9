// SPDX-License-Identifier: BSD-3-Clause
// Idea: in step k each rank swaps everything it holds with the rank 2^k away.
//
//   p = 4, blocks had   rank 0   rank 1   rank 2   rank 3
//   before                0        1        2        3
//   distance 1            01       01       23       23
//   distance 2            0123     0123     0123     0123
//
// Cost: log2(p) a + (p-1) mb, m bytes in a block: the fewest steps and the fewest bytes.
// Other sizes: if p is not a power of two, each surplus rank hands its block to the rank before it and gets
// all blocks at the end, + 2a + (p+1) mb. A step takes as long as the longer of its messages.
// Source: Thakur, Rabenseifner and Gropp, IJHPCA 19(1), 2005.
#include <bit>

#include "collectives/allgather/allgather.hpp"

namespace offbeat::allgather_algorithms {
namespace {

Task run(Endpoint net, Call call, const Expression&) {
  // Each group has one or two ranks, and the number of groups is a power of two.
  const Groups groups{net.size, static_cast<int>(std::bit_floor(static_cast<unsigned>(net.size)))};
  const int group = groups.group_of(net.rank);
  const int leader = groups.leader(group);
  if (net.rank != leader) {
    co_await net.send(leader, call.input);
    co_await net.receive(leader, call.output);
    co_return;
  }
  const auto blocks = [&](int first, int end) {
    return call.output_blocks.consecutive_blocks(call.output, first, end - first, net.size);
  };
  const int second = leader + 1;
  const bool has_second = groups.members(group) > 1;
  co_await net.copy(blocks(leader, second), call.input);
  if (has_second) co_await net.receive(second, blocks(second, second + 1));
  for (int distance = 1; distance < groups.group_count; distance *= 2) {
    const int peer = group ^ distance;
    const auto had_by = [&](int member) {
      const int first = member & -distance;
      return blocks(groups.leader(first), groups.leader(first + distance));
    };
    co_await net.exchange(groups.leader(peer), had_by(group), had_by(peer));
  }
  if (has_second) co_await net.send(second, call.output);
}

}  // namespace

const Algorithm recursive_doubling{
    .name = "recursive_doubling",
    .summary = "in step k each rank swaps all blocks it holds with the rank 2^k away; short blocks",
    .cost =
        "log2(q) a + sum(k < log2(q): ceil(2^k p/q)) mb + [p>q] (2a + (p+1) mb - (1-w) [2p<=3q] a), m "
        "bytes in a block",
    .serves = {Collective::allgather},
    .source = "Thakur, Rabenseifner and Gropp 2005",
    .run = run,
};

}  // namespace offbeat::allgather_algorithms
