// SPDX-License-Identifier: BSD-3-Clause
// Idea: rank r collects from r + 1, r + 2, r + 4, ... up to its lowest set bit, then sends to r minus this
// bit.
//
//     p = 6     1 -> 0, 3 -> 2, 5 -> 4     2 -> 0     4 -> 0
//
// Cost: ceil(log2 p) (a + nb + nc): the fewest steps, but each has the whole message, so this is for small n.
// Other sizes: any p.
// Order: rank order inside every subtree, counted from the root modulo p.
// Source: Thakur, Rabenseifner and Gropp, IJHPCA 19(1), 2005.
#include "collectives/phases/from_root.hpp"
#include "collectives/reduce/reduce.hpp"

namespace offbeat {

Task reduce_to_rank_0::binomial(Endpoint net, Call call) {
  const bool has_child = net.rank % 2 == 0 && net.rank + 1 < net.size;
  const std::size_t received = has_child ? call.input.count : 0;
  const bool has_output = call.output.data != nullptr;
  const Scratch theirs = net.scratch(received, call.input.width);
  const Scratch instead = net.scratch(has_output ? 0 : received, call.input.width);
  const Vector result = has_output ? call.output : instead.vector();
  ConstVector partial = call.input;
  for (int distance = 1; distance < net.size; distance *= 2) {
    if ((net.rank & distance) != 0) {
      co_await net.send(net.rank - distance, partial);
      co_return;
    }
    if (net.rank + distance < net.size) {
      co_await net.receive(net.rank + distance, theirs.vector());
      co_await net.reduce(*call.op, result, partial, theirs.vector());
      partial = result;
    }
  }
}

const Algorithm reduce_algorithms::binomial{
    .name = "binomial",
    .summary = "partial results go up a binomial tree; small messages",
    .cost = "max(log2(q) (a + nb + nc) + [p>q] (nc + w(a + nb)), a + ceil(log2 p) nb + nc), k = 1",
    .serves = {Collective::reduce},
    .source = "Thakur, Rabenseifner and Gropp 2005",
    .order = "binomial tree",
    .run = for_any_root<reduce_to_rank_0::binomial>,
};

}  // namespace offbeat
