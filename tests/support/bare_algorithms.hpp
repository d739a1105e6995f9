// SPDX-License-Identifier: BSD-3-Clause
// Allreduce in place by two bare loops, for tests and measurements of the simulator itself.
#pragma once

#include "base/task.hpp"
#include "reduction/reduction.hpp"
#include "transport/endpoint.hpp"

namespace offbeat {

// For powers of two.
inline Task bare_recursive_doubling(Endpoint net, const Reduction& op, Vector data) {
  const Scratch theirs = net.scratch(data.count, data.width);
  for (int distance = 1; distance < net.size; distance *= 2) {
    co_await net.exchange(net.rank ^ distance, data, theirs.vector());
    co_await net.reduce(op, data, data, theirs.vector());
  }
}

inline Task bare_ring(Endpoint net, const Reduction& op, Vector data) {
  const int p = net.size;
  const int next = (net.rank + 1) % p;
  const int previous = (net.rank + p - 1) % p;
  const auto block = [&](int index) { return data.block(p, (index + 2 * p) % p); };
  const Scratch theirs = net.scratch(block(0).count, data.width);
  for (int step = 0; step < p - 1; ++step) {
    const Vector mine = block(net.rank - step - 1);
    const Vector incoming = theirs.first(mine.count);
    co_await net.exchange(next, block(net.rank - step), previous, incoming);
    co_await net.reduce(op, mine, incoming, mine);
  }
  for (int step = 0; step < p - 1; ++step) {
    co_await net.exchange(next, block(net.rank + 1 - step), previous, block(net.rank - step));
  }
}

}  // namespace offbeat
