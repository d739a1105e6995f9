// SPDX-License-Identifier: BSD-3-Clause
// Idea: each rank receives from the rank before it and sends to the next.
//
//     p = 4     0 -> 1 -> 2 -> 3
//
// Cost: (p-1)(a + nb). In s segments, as in pipeline(s, chain), all ranks work at once: (p-1) a + (p+s-2) n/s
// b, little more than nb for many segments.
// Other sizes: any p.
// Source: Open MPI's broadcast by chain (coll_base_bcast.c); Castelló et al. 2021 cut it.
#include "collectives/bcast/bcast.hpp"
#include "collectives/phases/from_root.hpp"

namespace offbeat::bcast_algorithms {
namespace {

Task run_from_rank_0(Endpoint net, Call call) {
  if (net.rank > 0) co_await net.receive(net.rank - 1, call.output);
  if (net.rank + 1 < net.size) co_await net.send(net.rank + 1, call.output);
}

}  // namespace

const Algorithm chain{
    .name = "chain",
    .summary = "the message goes from rank to rank; long messages in many segments",
    .cost = "(p-1)(a + nb), u = nb, k = 1",
    .serves = {Collective::bcast},
    .source = "Open MPI's broadcast by chain",
    .run = for_any_root<run_from_rank_0>,
};

}  // namespace offbeat::bcast_algorithms
