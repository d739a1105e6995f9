// SPDX-License-Identifier: BSD-3-Clause
// The algorithms of scatter and scatterv.
#pragma once

#include "collectives/repertoire.hpp"
#include "patterns/knomial_tree.hpp"

namespace offbeat::scatter_from_first {

// Sends blocks down a binomial tree: each rank sends every child the blocks of the child's subtree, the
// largest subtree first. Block k begins at element begin(k). `held` has the blocks of this rank's own
// subtree, which it has received.
template <class Begin>
[[nodiscard]] Task scatter_down_tree(Endpoint net, ConstVector held, Begin begin) {
  const KnomialTree tree{net.size};
  for (int distance = tree.reach(net.rank) / 2; distance > 0; distance /= 2) {
    const int child = net.rank + distance;
    if (child >= net.size) continue;
    const std::size_t first = begin(child);
    const std::size_t last = begin(child + tree.size(child));
    co_await net.send(child, held.slice(first - begin(net.rank), last - first));
  }
}

}  // namespace offbeat::scatter_from_first

namespace offbeat::scatter_algorithms {

extern const Algorithm linear;
extern const Algorithm binomial;

}  // namespace offbeat::scatter_algorithms

namespace offbeat {

extern const Repertoire scatter;
extern const Repertoire scatterv;

}  // namespace offbeat
