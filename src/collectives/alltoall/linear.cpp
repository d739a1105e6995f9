// SPDX-License-Identifier: BSD-3-Clause
// Idea: every rank sends its blocks directly to the others, with eight of the steps of `pairwise` in flight.
// Each rank begins with a different receiver.
// Cost: (p-1)(a/8 + mb), m bytes in a block.
// Other sizes: any p.
// Source: Open MPI's basic linear algorithms (coll_base_alltoall.c), which post all messages at once.
#include <algorithm>

#include "collectives/alltoall/alltoall.hpp"

namespace offbeat::alltoall_algorithms {
namespace {

constexpr int in_flight = 8;

Task run(Endpoint net, Call call, const Expression&) {
  const int streams = std::min(in_flight, net.size);
  co_await net.concurrently(streams,
                            [&](const Endpoint& lane, int k) { return run_steps(lane, call, k, streams); });
}

}  // namespace

const Algorithm linear{
    .name = "linear",
    .summary = "each rank sends directly to all others, eight messages at a time",
    .cost =
        "(r-1) max(a + mb, 8x) + a + mb + (p-2 - 8(r-1)) x, x = max(mb, 2(1-w) o), r = ceil((p-1)/8), m bytes"
        " in a block",
    .serves = {Collective::allgather, Collective::allgatherv, Collective::alltoall, Collective::alltoallv},
    .source = "Open MPI's basic linear algorithms",
    .takes_stripes = true,
    .run = run,
    .lanes = [](const Expression&) { return in_flight; },
};

}  // namespace offbeat::alltoall_algorithms
