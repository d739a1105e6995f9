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
  co_await reduce_to_first::linear(net, call);
  co_await bcast_from_first::linear(net, call);
}

}  // namespace

const Algorithm linear{
    .name = "linear",
    .summary = "rank 0 collects, combines and sends the result to every rank; very few ranks",
    .cost = "(p-1)(2a + 2nb + nc)",
    .serves = {Collective::allreduce},
    .source = "Nuriyev et al. 2024",
    .run = run,
};

}  // namespace offbeat::allreduce_algorithms
