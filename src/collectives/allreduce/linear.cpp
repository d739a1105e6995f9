// SPDX-License-Identifier: BSD-3-Clause
// Idea: every rank sends to rank 0, which combines and sends the result to every rank.
// Cost: (p-1)(2a + 2nb + nc). This is for very few ranks, or if the others arrive long before rank 0.
// Other sizes: any p.
// Order: rank order, left to right. This is the order of the naive loop, and therefore the reference of the
// tests.
// Source: Nuriyev et al. 2024 (SUARA), table 1.
#include "collectives/allreduce/allreduce.hpp"
#include "collectives/bcast/bcast.hpp"
#include "collectives/reduce/reduce.hpp"

namespace offbeat::allreduce_algorithms {
namespace {

Task run(Endpoint net, Call call, const Expression&) {
  co_await reduce_to_rank_0::linear(net, call);
  co_await bcast_from_rank_0::linear(net, call);
}

}  // namespace

const Algorithm linear{
    .name = "linear",
    .summary = "rank 0 collects, combines and sends the result to every rank; very few ranks",
    .cost =
        "w(p-1)(a + nb + nc) + (1-w)(a + nb + max((p-2) x + lnc, max((p-2-l) x + min(p-1, f+l) nc + lo,"
        " (f-1) x + (p-1) nc + (p-1-f) o))) + a + nb + (p-2)(nb + (1-w) o) + w(p-2) a, x = max(nb, o), f = "
        "min(p-1, max(1, min(7, floor(2^20/n)))), l = p-1 - f(ceil((p-1)/f) - 1), k = 2",
    .serves = {Collective::allreduce},
    .source = "Nuriyev et al. 2024",
    .run = run,
};

}  // namespace offbeat::allreduce_algorithms
