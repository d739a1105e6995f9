// SPDX-License-Identifier: BSD-3-Clause
// Idea: partial results travel to the right.
//
//   p = 4, step k, the block that a rank sends
//   k   rank 0   rank 1   rank 2   rank 3
//   0     3        0        1        2      own input
//   1     2        3        0        1      sum of two ranks
//   2     1        2        3        0      sum of three; the receiver adds the fourth
//
// Cost: (p-1)(a + mb + mc), m bytes in the longest block: the fewest bytes, neighbours only, but linear
// latency.
// Other sizes: any p.
// Order: block b is combined in the order b+1, b+2, ..., b.
// Source: Patarasuk and Yuan, JPDC 69(2), 2009.
#include "collectives/reduce_scatter/reduce_scatter.hpp"

namespace offbeat {

Task striped_reduce_scatter::ring(Endpoint net, Call call, Stripe stripe) {
  const int p = net.size;
  const int right = (net.rank + 1) % p;
  const int left = (net.rank + p - 1) % p;
  const auto piece = [&](int rank) {
    return stripe.part_of(call.input_blocks.block_of(call.input, rank, p));
  };
  std::size_t longest = 0;
  for (int rank = 0; rank < p; ++rank) longest = std::max(longest, piece(rank).count);
  const Scratch scratch = net.scratch(2 * longest, call.input.width);  // what leaves, and what comes
  ConstVector outgoing = piece(left);
  for (int step = 0; step < p - 1; ++step) {
    const int block = (net.rank + 2 * p - 2 - step) % p;
    const ConstVector mine = piece(block);
    const Vector theirs = scratch.vector().slice(step % 2 == 0 ? 0 : longest, mine.count);
    co_await net.exchange(right, outgoing, left, theirs);
    co_await net.reduce(*call.op, block == net.rank ? stripe.part_of(call.output) : theirs, theirs, mine);
    outgoing = theirs;
  }
}

namespace reduce_scatter_algorithms {

const Algorithm ring{
    .name = "ring",
    .summary = "partial results travel from neighbour to neighbour; long blocks",
    .cost = "(p-1)(a + mb + mc), m bytes in a block",
    .serves = {Collective::reduce_scatter, Collective::reduce_scatter_block},
    .source = "Patarasuk and Yuan 2009",
    .takes_stripes = true,
    .run = [](Endpoint net, Call call, const Expression&) { return striped_reduce_scatter::ring(net, call); },
};

}  // namespace reduce_scatter_algorithms
}  // namespace offbeat
