// SPDX-License-Identifier: BSD-3-Clause
// Idea: p - 1 steps. In step k rank r sends its input for rank r + k directly to it, and combines what rank r
// - k has for it.
// Cost: (p-1)(a + mb + mc), m bytes in the longest block.
// Other sizes: any p.
// Order: block b is combined in the order b, b-1, b-2, ..., b+1.
// Source: Thakur, Rabenseifner and Gropp, IJHPCA 19(1), 2005.
#include "collectives/reduce_scatter/reduce_scatter.hpp"

namespace offbeat::reduce_scatter_algorithms {
namespace {

Task run(Endpoint net, Call call, const Expression&) {
  const int p = net.size;
  const Scratch theirs = net.scratch(call.output.count, call.output.width);
  ConstVector mine = call.input_blocks.block_of(call.input, net.rank, p);
  for (int step = 1; step < p; ++step) {
    const int to = (net.rank + step) % p;
    const int from = (net.rank + p - step) % p;
    co_await net.exchange(to, call.input_blocks.block_of(call.input, to, p), from, theirs.vector());
    co_await net.reduce(*call.op, call.output, mine, theirs.vector());
    mine = call.output;
  }
}

}  // namespace

const Algorithm pairwise{
    .name = "pairwise",
    .summary = "every rank sends each block directly to its owner, which combines; long blocks",
    .cost = "(p-1)(a + mb + mc), m bytes in a block",
    .serves = {Collective::reduce_scatter, Collective::reduce_scatter_block},
    .source = "Thakur, Rabenseifner and Gropp 2005",
    .takes_stripes = true,
    .run = run,
};

}  // namespace offbeat::reduce_scatter_algorithms
