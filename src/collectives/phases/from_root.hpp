// SPDX-License-Identifier: BSD-3-Clause
// Algorithms with a root are written for root 0, and run on ranks that are numbered from the root on.
#pragma once

#include "collectives/algorithm.hpp"

namespace offbeat {

// All ranks, of which `root` is rank 0, root + 1 is rank 1, and so on around.
[[nodiscard]] inline Endpoint from_root(const Endpoint& net, int root) {
  return net.part({.first = root, .ring = net.size}, (net.rank - root + net.size) % net.size, net.size);
}

// What `run` does for root 0, for any root: an Algorithm::run. The call stays as it is.
template <Task (*run)(Endpoint, Call)>
[[nodiscard]] Task for_any_root(Endpoint net, Call call, const Expression&) {
  co_await run(from_root(net, call.root), call);
}

}  // namespace offbeat
