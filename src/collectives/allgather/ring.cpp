// SPDX-License-Identifier: BSD-3-Clause
// Idea: every rank passes to the right what came from the left.
//
//   p = 4, step k, the block that a rank sends
//   k   rank 0   rank 1   rank 2   rank 3
//   0     0        1        2        3      its own
//   1     3        0        1        2
//   2     2        3        0        1
//
// Cost: (p-1)(a + mb), m bytes in the longest block: the fewest bytes, neighbours only, but linear latency.
// Other sizes: any p.
// Source: Thakur, Rabenseifner and Gropp, IJHPCA 19(1), 2005.
#include "collectives/allgather/allgather.hpp"

namespace offbeat {

Task allgather_in_place::ring(Endpoint net, Vector data, BlockList blocks) {
  const int p = net.size;
  const int right = (net.rank + 1) % p;
  const int left = (net.rank + p - 1) % p;
  for (int step = 0; step < p - 1; ++step) {
    const int sent = (net.rank + p - step) % p;
    const int received = (net.rank + 2 * p - 1 - step) % p;
    co_await net.exchange(right, blocks.block_of(data, sent, p), left, blocks.block_of(data, received, p));
  }
}

namespace allgather_algorithms {
namespace {

Task run(Endpoint net, Call call, const Expression&) {
  co_await net.copy(call.output_blocks.block_of(call.output, net.rank, net.size), call.input);
  co_await allgather_in_place::ring(net, call.output, call.output_blocks);
}

}  // namespace

const Algorithm ring{
    .name = "ring",
    .summary = "each rank passes to the right what came from the left; long blocks",
    .cost = "(p-1)(a + mb), m bytes in a block",
    .serves = {Collective::allgather, Collective::allgatherv},
    .source = "Thakur, Rabenseifner and Gropp 2005",
    .takes_stripes = true,
    .run = run,
};

}  // namespace allgather_algorithms
}  // namespace offbeat
