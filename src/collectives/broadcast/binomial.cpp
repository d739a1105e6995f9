// SPDX-License-Identifier: BSD-3-Clause
// Binomial broadcast: rank r receives from r minus its lowest set bit, then serves r + 1, r + 2, r + 4, ...
// below that bit, the largest subtree first.
#include <bit>

#include "collectives/broadcast/broadcast.hpp"

namespace offbeat::broadcast_from_first {

Task binomial(Endpoint net, Vector data) {
  const auto rank = static_cast<unsigned>(net.rank);
  const int reach =
      static_cast<int>(rank == 0 ? std::bit_ceil(static_cast<unsigned>(net.size)) : rank & (~rank + 1));
  if (net.rank != 0) co_await net.receive(net.rank - reach, data);
  for (int distance = reach / 2; distance > 0; distance /= 2) {
    if (net.rank + distance < net.size) co_await net.send(net.rank + distance, data);
  }
}

}  // namespace offbeat::broadcast_from_first
