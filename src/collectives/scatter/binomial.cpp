// SPDX-License-Identifier: BSD-3-Clause
// Idea: half of the blocks go to the root of the other half of the ranks, and so on. Ranks are counted from
// the root. If the root is not rank 0, it first copies the blocks into that order.
//
//     p = 6     0 -> 4: 45     0 -> 2: 23, 4 -> 5: 5     0 -> 1: 1, 2 -> 3: 3
//
// Cost: ceil(log2 p) a + (p-1) nb, n bytes in a block: for small blocks.
// Other sizes: any p.
// Source: Thakur, Rabenseifner and Gropp, IJHPCA 19(1), 2005.
#include "collectives/phases/from_root.hpp"
#include "collectives/phases/rotated_blocks.hpp"
#include "collectives/scatter/scatter.hpp"

namespace offbeat::scatter_algorithms {
namespace {

Task run_from_rank_0(Endpoint net, Call call) {
  const KnomialTree tree{net.size};
  const int p = net.size;
  const std::size_t block = call.output.count;
  const RotatedBlocks blocks(call.input_blocks, block, call.root, p);
  const auto begin = [blocks](int rank) { return blocks.elements(0, rank); };
  if (net.rank == 0 && call.root == 0) {
    co_await scatter_from_first::scatter_down_tree(net, call.input, begin);
    co_await net.copy(call.output, call.input.slice(0, block));
    co_return;
  }
  const int ranks = tree.size(net.rank);
  if (ranks == 1) {
    co_await net.receive(tree.parent(net.rank), call.output);
    co_return;
  }
  const Scratch scratch = net.scratch(blocks.elements(net.rank, ranks), call.output.width);
  const Vector held = scratch.vector();
  ConstVector own = held.slice(0, block);
  if (net.rank == 0) {
    const std::size_t rest = begin(p - call.root);
    const std::size_t first = held.count - rest;
    co_await net.copy(held.slice(0, rest), call.input.slice(first, rest));
    co_await net.copy(held.slice(rest, first), call.input.slice(0, first));
    own = call.input.slice(first, block);  // in place it is not copied
  } else {
    co_await net.receive(tree.parent(net.rank), held);
  }
  co_await scatter_from_first::scatter_down_tree(net, held, begin);
  co_await net.copy(call.output, own);
}

}  // namespace

const Algorithm binomial{
    .name = "binomial",
    .summary = "half of the blocks go to the other half of the ranks, and so on; small blocks",
    .cost = "(log2(q) + w[p>q]) a + (p-1) nb, n bytes in a block",
    .serves = {Collective::scatter},
    .source = "Thakur, Rabenseifner and Gropp 2005",
    .run = for_any_root<run_from_rank_0>,
};

}  // namespace offbeat::scatter_algorithms
