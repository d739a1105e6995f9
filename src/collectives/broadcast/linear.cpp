// SPDX-License-Identifier: BSD-3-Clause
#include "collectives/broadcast/broadcast.hpp"

namespace offbeat::broadcast_from_first {

Task linear(Endpoint net, Vector data) {
  if (net.rank != 0) {
    co_await net.receive(0, data);
    co_return;
  }
  for (int peer = 1; peer < net.size; ++peer) co_await net.send(peer, data);
}

}  // namespace offbeat::broadcast_from_first
