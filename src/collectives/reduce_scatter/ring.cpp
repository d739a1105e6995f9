// SPDX-License-Identifier: BSD-3-Clause
// Ring reduce-scatter. Step k of p - 1, p = 4 (the block that a rank sends to its right neighbour):
//
//   k   rank 0   rank 1   rank 2   rank 3
//   0     3        0        1        2      own input
//   1     2        3        0        1      sum of two ranks
//   2     1        2        3        0      sum of three; the receiver adds the fourth
//
// Cost: (p-1)(a + n/p b + n/p c).  Source: Patarasuk and Yuan, JPDC 69(2), 2009.
#include <algorithm>

#include "collectives/reduce_scatter/reduce_scatter.hpp"

namespace offbeat::reduce_scatter {
namespace {

template <class AnyVector>
AnyVector piece(const AnyVector& vector, int parts, int index, const Stripe& stripe) {
  const AnyVector block = vector.block(parts, index);
  const std::size_t first = std::min(stripe.first, block.count);
  return block.slice(first, std::min(stripe.length, block.count - first));
}

}  // namespace

Task ring(Endpoint net, Call call, Stripe stripe) {
  const int p = net.size;
  const int right = (net.rank + 1) % p;
  const int left = (net.rank + p - 1) % p;
  const Scratch scratch = net.scratch(piece(call.input, p, 0, stripe).count, call.input.width);
  ConstVector outgoing = piece(call.input, p, left, stripe);
  for (int step = 0; step < p - 1; ++step) {
    const int block = (net.rank + 2 * p - 2 - step) % p;
    const ConstVector mine = piece(call.input, p, block, stripe);
    const Vector partial = piece(call.output, p, block, stripe);
    const Vector theirs = scratch.first(mine.count);
    co_await net.exchange(right, outgoing, left, theirs);
    co_await net.reduce(*call.op, partial, theirs, mine);
    outgoing = partial;
  }
}

}  // namespace offbeat::reduce_scatter
