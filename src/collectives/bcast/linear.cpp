// SPDX-License-Identifier: BSD-3-Clause
// Idea: the root sends to every other rank in turn.
// Cost: (p-1)(a + nb), so this is for very few ranks.
// Other sizes: any p.
// Source: Open MPI's basic linear broadcast (coll_base_bcast.c).
#include "collectives/bcast/bcast.hpp"
#include "collectives/phases/from_root.hpp"

namespace offbeat {

Task bcast_from_rank_0::linear(Endpoint net, Call call) {
  if (net.rank != 0) {
    co_await net.receive(0, call.output);
    co_return;
  }
  for (int peer = 1; peer < net.size; ++peer) co_await net.send(peer, call.output);
}

const Algorithm bcast_algorithms::linear{
    .name = "linear",
    .summary = "the root sends to every rank in turn; very few ranks",
    .cost = "a + nb + (p-2)(nb + (1-w) o) + w(p-2) a, k = 1",
    .serves = {Collective::bcast},
    .source = "Open MPI's basic linear broadcast",
    .run = for_any_root<bcast_from_rank_0::linear>,
};

}  // namespace offbeat
