// SPDX-License-Identifier: BSD-3-Clause
// An algorithm with a root is written for root 0. It runs on ranks that are numbered from the root on.
#pragma once

#include "collectives/algorithm.hpp"

namespace offbeat {

// Returns all ranks in the order root, root + 1 and so on around, numbered from 0.
[[nodiscard]] inline Endpoint numbered_from_root(const Endpoint& net, int root) {
  return net.part({.first = root, .wraps_at = net.size}, (net.rank - root + net.size) % net.size, net.size);
}

// Runs `run`, which is written for root 0, with any root; this is an Algorithm::run. The call is not changed.
template <Task (*run)(Endpoint, Call, const Expression&)>
[[nodiscard]] Task for_any_root(Endpoint net, Call call, const Expression& self) {
  co_await run(numbered_from_root(net, call.root), call, self);
}
template <Task (*run)(Endpoint, Call)>
[[nodiscard]] Task for_any_root(Endpoint net, Call call, const Expression&) {
  co_await run(numbered_from_root(net, call.root), call);
}

}  // namespace offbeat
