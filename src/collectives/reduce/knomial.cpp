// SPDX-License-Identifier: BSD-3-Clause
// Idea: rank r collects from r + 1, r + 2, ... up a tree and sends what it has combined to its parent. With
// K = 2 the tree is binomial.
//
//     p = 6, K = 2     1 -> 0, 3 -> 2, 5 -> 4     2 -> 0     4 -> 0
//     p = 9, K = 3     1 -> 0, 2 -> 0, 4 -> 3, 5 -> 3, 7 -> 6, 8 -> 6     3 -> 0, 6 -> 0
//
// A larger K means fewer levels, each with K - 1 messages to one rank. It is for small n, where a message
// travels much longer than it takes to receive.
//
// Cost: ceil(log_K p) (a + (K-1) (nb + nc)).
// Other sizes: any p.
// Order: rank order inside every subtree, counted from the root modulo p.
// Source: Thakur, Rabenseifner and Gropp, IJHPCA 19(1), 2005; Wilkins et al., CLUSTER 2023 (any K).
#include "collectives/phases/from_root.hpp"
#include "collectives/reduce/reduce.hpp"
#include "patterns/knomial_tree.hpp"

namespace offbeat {
namespace {

Task send_up(Endpoint net, Call call, int radix) {
  const KnomialTree tree{net.size, radix};
  const bool has_child = tree.size(net.rank) > 1;
  const std::size_t received = has_child ? call.input.count : 0;
  const bool has_output = call.output.data != nullptr;
  const Scratch theirs = net.scratch(received, call.input.width);
  const Scratch instead = net.scratch(has_output ? 0 : received, call.input.width);
  const Vector result = has_output ? call.output : instead.vector();
  ConstVector partial = call.input;
  for (int distance = 1; distance < tree.reach(net.rank); distance *= radix) {
    for (int j = 1; j < radix && net.rank + j * distance < net.size; ++j) {
      co_await net.receive(net.rank + j * distance, theirs.vector());
      co_await net.reduce(*call.op, result, partial, theirs.vector());
      partial = result;
    }
  }
  if (net.rank != 0) co_await net.send(tree.parent(net.rank), partial);
}

Task run(Endpoint net, Call call, const Expression& self) { return send_up(net, call, self.radix); }

constexpr Parameter parameters[] = {Parameter::radix};

}  // namespace

Task reduce_to_rank_0::binomial(Endpoint net, Call call) { return send_up(net, call, 2); }

const Algorithm reduce_algorithms::binomial{
    .name = "binomial",
    .summary = "partial results go up a binomial tree; small messages",
    .cost = "max(log2(q) (a + nb + nc) + [p>q] (nc + w(a + nb)), a + ceil(log2 p) nb + nc), k = 1",
    .serves = {Collective::reduce},
    .source = "Thakur, Rabenseifner and Gropp 2005",
    .order = "binomial tree",
    .run = for_any_root<reduce_to_rank_0::binomial>,
};

const Algorithm reduce_algorithms::knomial{
    .name = "knomial",
    .summary = "partial results go up a tree in which each level has K - 1 children; small messages",
    .cost =
        "sum(l < ceil(log2 p/log2 K): (min(K, ceil(p/K^l)) - 1) (max(nb, nc) + w(a + min(nb, nc)))) + (1-w) "
        "floor(log2(p(K-1) - K + 2)/log2 K) (a + min(nb, nc))",
    .serves = {Collective::reduce},
    .source = "Wilkins et al. 2023",
    .parameters = parameters,
    .run = for_any_root<run>,
};

}  // namespace offbeat
