// SPDX-License-Identifier: BSD-3-Clause
// Idea: each rank that has the data sends it on, to its largest subtree first.
//
//     p = 6     0 -> 4     0 -> 2, 4 -> 5     0 -> 1, 2 -> 3
//
// Cost: ceil(log2 p) (a + nb): the fewest steps, but each has the whole message, so this is for small n.
// Other sizes: any p.
// Source: Thakur, Rabenseifner and Gropp, IJHPCA 19(1), 2005.
#include "collectives/bcast/bcast.hpp"
#include "collectives/phases/from_root.hpp"
#include "patterns/binomial_tree.hpp"

namespace offbeat {

Task bcast_from_rank_0::binomial(Endpoint net, Call call) {
  const BinomialTree tree{net.size};
  if (net.rank != 0) co_await net.receive(tree.parent(net.rank), call.output);
  for (int distance = tree.reach(net.rank) / 2; distance > 0; distance /= 2) {
    if (net.rank + distance < net.size) co_await net.send(net.rank + distance, call.output);
  }
}

const Algorithm bcast_algorithms::binomial{
    .name = "binomial",
    .summary = "each rank that has the data sends it on, along a binomial tree; small messages",
    .cost = "log2(q) (a + nb) + [p>q] (nb + wa), k = 1",
    .serves = {Collective::bcast},
    .source = "Thakur, Rabenseifner and Gropp 2005",
    .run = for_any_root<bcast_from_rank_0::binomial>,
};

}  // namespace offbeat
