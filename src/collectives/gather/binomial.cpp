// SPDX-License-Identifier: BSD-3-Clause
// Idea: each rank collects the blocks of its subtree, the smallest child first, and sends them up in one
// message. Ranks are counted from the root. If the root is not rank 0, it collects in that order and copies
// the blocks to their places.
//
//     p = 6     1 -> 0: 1, 3 -> 2: 3, 5 -> 4: 5     2 -> 0: 23     4 -> 0: 45
//
// Cost: ceil(log2 p) a + (p-1) nb, n bytes in a block: for small blocks.
// Other sizes: any p.
// Source: Thakur, Rabenseifner and Gropp, IJHPCA 19(1), 2005.
#include "collectives/gather/gather.hpp"
#include "collectives/phases/from_root.hpp"
#include "collectives/phases/rotated_blocks.hpp"
#include "patterns/knomial_tree.hpp"

namespace offbeat::gather_algorithms {
namespace {

// Collects the blocks of this rank's subtree in `held`. They follow one another, and this rank's own block is
// the first.
Task collect(Endpoint net, ConstVector mine, Vector held, RotatedBlocks blocks) {
  const KnomialTree tree{net.size};
  co_await net.copy(held.slice(0, mine.count), mine);
  for (int distance = 1; distance < tree.reach(net.rank); distance *= 2) {
    const int child = net.rank + distance;
    if (child >= net.size) break;
    co_await net.receive(child, blocks.blocks_from(held, distance, tree.size(child)));
  }
}

Task run_to_rank_0(Endpoint net, Call call) {
  const KnomialTree tree{net.size};
  const int p = net.size;
  const RotatedBlocks blocks(call.output_blocks, call.input.count, (net.rank + call.root) % p, p);
  if (net.rank == 0 && call.root == 0) {
    co_await collect(net, call.input, call.output, blocks);
    co_return;
  }
  const int ranks = tree.size(net.rank);
  if (ranks == 1) {
    co_await net.send(tree.parent(net.rank), call.input);
    co_return;
  }
  const Scratch scratch = net.scratch(blocks.elements(0, ranks), call.input.width);
  const Vector held = scratch.vector();
  co_await collect(net, call.input, held, blocks);
  if (net.rank == 0) {
    const std::size_t rest = blocks.elements(0, p - call.root);
    const std::size_t first = held.count - rest;
    co_await net.copy(call.output.slice(first, rest), held.slice(0, rest));
    co_await net.copy(call.output.slice(0, first), held.slice(rest, first));
  } else {
    co_await net.send(tree.parent(net.rank), held);
  }
}

}  // namespace

const Algorithm binomial{
    .name = "binomial",
    .summary = "each rank collects the blocks of its subtree and sends them up together; small blocks",
    .cost = "(log2(q) + w[p>q]) a + (p-1) nb, n bytes in a block",
    .serves = {Collective::gather},
    .source = "Thakur, Rabenseifner and Gropp 2005",
    .run = for_any_root<run_to_rank_0>,
};

}  // namespace offbeat::gather_algorithms
