// SPDX-License-Identifier: BSD-3-Clause
// Idea: the root scatters the vector in p blocks along a binomial tree. Then the blocks go around a ring.
//
//     p = 4     rank 0   rank 1   rank 2   rank 3
//               0123     -        -        -
//     scatter   0123     1        23       3
//     ring      0123     0123     0123     0123     each adds the block that its left neighbour had
//
// Cost: (ceil(log2 p) + p-1) a + 2n(p-1)/p b: for long messages among not too many ranks.
// Other sizes: any p.
// Source: van de Geijn's, in Barnett et al. 1994; Thakur, Rabenseifner and Gropp, IJHPCA 19(1), 2005.
#include "collectives/allgather/allgather.hpp"
#include "collectives/bcast/bcast.hpp"
#include "collectives/phases/from_root.hpp"
#include "collectives/scatter/scatter.hpp"
#include "patterns/knomial_tree.hpp"

namespace offbeat::bcast_algorithms {
namespace {

Task run_from_rank_0(Endpoint net, Call call) {
  const KnomialTree tree{net.size};
  const Vector held = call.output.blocks(net.size, net.rank, tree.size(net.rank));
  if (net.rank != 0) co_await net.receive(tree.parent(net.rank), held);
  const auto begin = [&](int rank) { return block_begin(call.output.count, net.size, rank); };
  co_await scatter_from_first::scatter_down_tree(net, held, begin);
  co_await allgather_in_place::ring(net, call.output);
}

}  // namespace

const Algorithm scatter_allgather{
    .name = "scatter_allgather",
    .summary = "blocks go along a binomial tree, then around a ring; large messages",
    .cost = "(log2(q) + w[p>q] + p-1) a + 2n(p-1)/p b",
    .serves = {Collective::bcast},
    .source = "Barnett et al. 1994 (van de Geijn)",
    .run = for_any_root<run_from_rank_0>,
};

}  // namespace offbeat::bcast_algorithms
