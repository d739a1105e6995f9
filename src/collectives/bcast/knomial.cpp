// SPDX-License-Identifier: BSD-3-Clause
// Idea: each rank that has the data sends it on, to its largest subtrees first. With K = 2 the tree is
// binomial.
//
//     p = 6, K = 2     0 -> 4     0 -> 2, 4 -> 5     0 -> 1, 2 -> 3
//     p = 9, K = 3     0 -> 3, 0 -> 6     0 -> 1, 0 -> 2, 3 -> 4, 3 -> 5, 6 -> 7, 6 -> 8
//
// A larger K means fewer levels, each with K - 1 messages of one rank. It is for small n, where a message
// travels much longer than it takes to send.
//
// Cost: ceil(log_K p) (a + (K-1) nb).
// Other sizes: any p.
// Source: Thakur, Rabenseifner and Gropp, IJHPCA 19(1), 2005; Wilkins et al., CLUSTER 2023 (any K).
#include "collectives/bcast/bcast.hpp"
#include "collectives/phases/from_root.hpp"
#include "patterns/knomial_tree.hpp"

namespace offbeat {
namespace {

Task send_down(Endpoint net, Call call, int radix) {
  const KnomialTree tree{net.size, radix};
  if (net.rank != 0) co_await net.receive(tree.parent(net.rank), call.output);
  for (int distance = tree.reach(net.rank) / radix; distance > 0; distance /= radix) {
    for (int j = 1; j < radix && net.rank + j * distance < net.size; ++j)
      co_await net.send(net.rank + j * distance, call.output);
  }
}

Task run(Endpoint net, Call call, const Expression& self) { return send_down(net, call, self.radix); }

constexpr Parameter parameters[] = {Parameter::radix};

}  // namespace

Task bcast_from_rank_0::binomial(Endpoint net, Call call) { return send_down(net, call, 2); }

const Algorithm bcast_algorithms::binomial{
    .name = "binomial",
    .summary = "each rank that has the data sends it on, along a binomial tree; small messages",
    .cost = "log2(q) (a + nb) + [p>q] (nb + wa), k = 1",
    .serves = {Collective::bcast},
    .source = "Thakur, Rabenseifner and Gropp 2005",
    .run = for_any_root<bcast_from_rank_0::binomial>,
};

const Algorithm bcast_algorithms::knomial{
    .name = "knomial",
    .summary =
        "each rank that has the data sends it on, along a tree in which each level has K - 1 children; "
        "small messages",
    .cost =
        "sum(l < ceil(log2 p/log2 K): (min(K, ceil(p/K^l)) - 1) (nb + wa)) + (1-w) floor(log2(p(K-1) - K + "
        "2)/log2 K) a",
    .serves = {Collective::bcast},
    .source = "Wilkins et al. 2023",
    .parameters = parameters,
    .run = for_any_root<run>,
};

}  // namespace offbeat
