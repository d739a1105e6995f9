// SPDX-License-Identifier: BSD-3-Clause
// Binomial reduce: rank r collects from r + 1, r + 2, r + 4, ... up to its lowest set bit, then sends to r
// minus this bit.
#include "collectives/reduce/reduce.hpp"

namespace offbeat::reduce_to_first {

Task binomial(Endpoint net, Call call) {
  ConstVector partial = call.input;
  const Scratch theirs = net.scratch(net.rank % 2 == 0 ? call.input.count : 0, call.input.width);
  for (int distance = 1; distance < net.size; distance *= 2) {
    if ((net.rank & distance) != 0) {
      co_await net.send(net.rank - distance, partial);
      co_return;
    }
    if (net.rank + distance < net.size) {
      co_await net.receive(net.rank + distance, theirs.vector());
      co_await net.reduce(*call.op, call.output, partial, theirs.vector());
      partial = call.output;
    }
  }
}

}  // namespace offbeat::reduce_to_first
