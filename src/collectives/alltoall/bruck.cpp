// SPDX-License-Identifier: BSD-3-Clause
// Idea: each block travels from its sender to its receiver in steps of powers of two, those in the binary
// number of the distance. All blocks that take a step travel together.
//
//   p = 4, from,to   rank 0        rank 1        rank 2        rank 3
//   turned           00 01 02 03   11 12 13 10   22 23 20 21   33 30 31 32   distance 0, 1, 2, 3
//   step 0           00 30 02 32   11 01 13 03   22 12 20 10   33 23 31 21   distances 1 and 3 have gone 1
//   step 1           00 30 20 10   11 01 31 21   22 12 02 32   33 23 13 03   distances 2 and 3 have gone 2
//
// A last copy puts the blocks in the order of their senders. The output holds what leaves and what comes.
//
// Cost: ceil(log2(p)) a + log2(p) p/2 mb, m bytes in a block.
// Other sizes: any p; if it is not a power of two, there are fewer bytes.
// Source: Bruck, Ho, Kipnis, Upfal and Weathersby, IEEE TPDS 8(11), 1997.
#include <algorithm>

#include "collectives/alltoall/alltoall.hpp"

namespace offbeat::alltoall_algorithms {
namespace {

Task run(Endpoint net, Call call, const Expression&) {
  const int p = net.size;
  const Scratch scratch = net.scratch(call.input.count, call.input.width);
  const Vector& turned = scratch.vector();  // block k: the one that is k ranks away from where it will be
  const int until_last = p - net.rank;
  co_await net.copy(turned.blocks(p, 0, until_last), call.input.blocks(p, net.rank, until_last));
  co_await net.copy(turned.blocks(p, until_last, net.rank), call.input.blocks(p, 0, net.rank));
  for (int distance = 1; distance < p; distance *= 2) {
    const int right = (net.rank + distance) % p;
    const int left = (net.rank + p - distance) % p;
    int number = 0;
    for (int first = distance; first < p; first += 2 * distance) {
      const int together = std::min(distance, p - first);
      co_await net.copy(call.output.blocks(p, number, together), turned.blocks(p, first, together));
      number += together;
    }
    co_await net.exchange(right, call.output.blocks(p, 0, number), left,
                          call.output.blocks(p, number, number));
    for (int first = distance; first < p; first += 2 * distance) {
      const int together = std::min(distance, p - first);
      co_await net.copy(turned.blocks(p, first, together), call.output.blocks(p, number, together));
      number += together;
    }
  }
  for (int distance = 0; distance < p; ++distance)
    co_await net.copy(call.output.block(p, (net.rank + p - distance) % p), turned.block(p, distance));
}

}  // namespace

const Algorithm bruck{
    .name = "bruck",
    .summary = "blocks travel together, in steps of powers of two; short blocks",
    .cost = "ceil(log2(p)) a + ones(p) mb, m bytes in a block",
    .serves = {Collective::alltoall},
    .source = "Bruck et al. 1997",
    .run = run,
};

}  // namespace offbeat::alltoall_algorithms
