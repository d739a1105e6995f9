// SPDX-License-Identifier: BSD-3-Clause
// Idea: the root sends every other rank its block, in rank order.
// Cost: (p-1)(a + nb), n bytes in a block: the fewest bytes, for large blocks or very few ranks.
// Other sizes: any p.
// Source: Open MPI's basic linear scatter (coll_base_scatter.c).
#include "collectives/scatter/scatter.hpp"

namespace offbeat::scatter_algorithms {
namespace {

Task run(Endpoint net, Call call, const Expression&) {
  if (net.rank != call.root) {
    co_await net.receive(call.root, call.output);
    co_return;
  }
  for (int rank = 0; rank < net.size; ++rank) {
    const ConstVector block = call.input_blocks.block_of(call.input, rank, net.size);
    if (rank == net.rank) {
      co_await net.copy(call.output, block);
    } else {
      co_await net.send(rank, block);
    }
  }
}

}  // namespace

const Algorithm linear{
    .name = "linear",
    .summary = "the root sends each rank its block in turn; large blocks, or very few ranks",
    .cost = "a + nb + (p-2)(nb + (1-w) o) + w(p-2) a, n bytes in a block",
    .serves = {Collective::scatter, Collective::scatterv},
    .source = "Open MPI's basic linear scatter",
    .run = run,
};

}  // namespace offbeat::scatter_algorithms
