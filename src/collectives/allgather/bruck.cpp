// SPDX-License-Identifier: BSD-3-Clause
// Idea: in step i every rank gets what the ranks K^i, 2 K^i, ... (K-1) K^i to its right hold, except what it
// has already. `bruck` is the algorithm with K = 2.
//
//   p = 5, blocks had   rank 0   rank 1   rank 2   rank 3   rank 4
//   before                0        1        2        3        4
//   step 0                01       12       23       34       40
//   step 1                0123     1234     2340     3401     4012
//   step 2                01234    12340    23401    34012    40123
//
// The blocks are in this order in scratch memory; a last copy puts them in rank order.
// Cost: ceil(log_K(p)) a + (p-1) mb, m bytes in a block.
// Other sizes: any p.
// Source: Bruck, Ho, Kipnis, Upfal and Weathersby, IEEE TPDS 8(11), 1997: K - 1 is their number of ports.
#include <algorithm>

#include "collectives/allgather/allgather.hpp"
#include "collectives/phases/exchange.hpp"
#include "collectives/phases/rotated_blocks.hpp"

namespace offbeat::allgather_algorithms {
namespace {

Task run_with(Endpoint net, Call call, int radix) {
  const int p = net.size;
  const Scratch scratch = net.scratch(call.output.count, call.output.width);
  const RotatedBlocks blocks(call.output_blocks, call.input.count, net.rank, p);
  const auto turned = [&](int first, int number) {
    return blocks.blocks_from(scratch.vector(), first, number);
  };
  const auto place = [&](int first, int number) {
    return call.output_blocks.consecutive_blocks(call.output, first, number, p);
  };
  co_await net.copy(turned(0, 1), call.input);
  for (int distance = 1; distance < p; distance *= radix) {
    co_await net.concurrently_on_shared_lanes(
        std::min(radix - 1, (p - 1) / distance), [&](const Endpoint& same, int k) {
          const int had = (k + 1) * distance;
          const int number = std::min(distance, p - had);
          return exchange(same, (net.rank + p - had) % p, turned(0, number), (net.rank + had) % p,
                          turned(had, number));
        });
  }
  const int until_last = p - net.rank;
  co_await net.copy(place(net.rank, until_last), turned(0, until_last));
  co_await net.copy(place(0, net.rank), turned(until_last, net.rank));
}

constexpr Parameter parameters[] = {Parameter::radix};

}  // namespace

const Algorithm bruck{
    .name = "bruck",
    .summary =
        "in step k each rank gets what the rank 2^k to its right holds; short blocks, any number of ranks",
    .cost = "ceil(log2(p)) a + (p-1) mb, m bytes in a block",
    .serves = {Collective::allgather},
    .source = "Bruck et al. 1997",
    .run = [](Endpoint net, Call call, const Expression&) { return run_with(net, call, 2); },
};

const Algorithm k_bruck{
    .name = "k_bruck",
    .summary = "log_K(p) steps, in each of which a rank gets blocks from K - 1 others; short blocks",
    .cost = "ceil(log2 p/log2 K) a + (p-1) mb, m bytes in a block",
    .serves = {Collective::allgather},
    .source = "Bruck et al. 1997",
    .parameters = parameters,
    .run = [](Endpoint net, Call call, const Expression& self) { return run_with(net, call, self.radix); },
};

}  // namespace offbeat::allgather_algorithms
