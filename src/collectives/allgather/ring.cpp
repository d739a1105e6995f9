// SPDX-License-Identifier: BSD-3-Clause
// Ring allgather: every rank passes on to the right what came from the left.
#include "collectives/allgather/allgather.hpp"

namespace offbeat::allgather {

Task ring(Endpoint net, Vector data) {
  const int p = net.size;
  const int right = (net.rank + 1) % p;
  const int left = (net.rank + p - 1) % p;
  for (int step = 0; step < p - 1; ++step) {
    const int sent = (net.rank + p - step) % p;
    const int received = (net.rank + 2 * p - 1 - step) % p;
    co_await net.exchange(right, data.block(p, sent), left, data.block(p, received));
  }
}

}  // namespace offbeat::allgather
