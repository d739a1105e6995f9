// SPDX-License-Identifier: BSD-3-Clause
// Idea: every rank sends its block to the root, which receives them in rank order.
// Cost: (p-1)(a + nb), n bytes in a block: the fewest bytes, for large blocks or very few ranks.
// Other sizes: any p.
// Source: Open MPI's basic linear gather (coll_base_gather.c).
#include "collectives/gather/gather.hpp"

namespace offbeat::gather_algorithms {
namespace {

Task run(Endpoint net, Call call, const Expression&) {
  if (net.rank != call.root) {
    co_await net.send(call.root, call.input);
    co_return;
  }
  for (int rank = 0; rank < net.size; ++rank) {
    const Vector block = call.output_blocks.block_of(call.output, rank, net.size);
    if (rank == net.rank) {
      co_await net.copy(block, call.input);
    } else {
      co_await net.receive(rank, block);
    }
  }
}

}  // namespace

const Algorithm linear{
    .name = "linear",
    .summary = "every rank sends its block to the root; large blocks, or very few ranks",
    .cost = "a + nb + (p-2) max(nb, (1-w) o) + w(p-2) a, n bytes in a block",
    .serves = {Collective::gather, Collective::gatherv},
    .source = "Open MPI's basic linear gather",
    .run = run,
};

}  // namespace offbeat::gather_algorithms
