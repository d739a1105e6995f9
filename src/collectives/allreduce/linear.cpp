// SPDX-License-Identifier: BSD-3-Clause
// Linear: everybody sends to rank 0, rank 0 sends the result to everybody.
//
// Cost: (p-1)(2a + 2nb + nc): for very few ranks, or when the others arrive long before rank 0.
// Order: rank order, left to right, which is that of the naive loop and so the reference of the tests.
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
    .summary = "rank 0 collects, combines and sends to everybody; very few ranks",
    .cost = "(p-1)(2a + 2nb + nc)",
    .serves = {Collective::allreduce},
    .source = "Nuriyev et al. 2024",
    .run = run,
};

}  // namespace offbeat::allreduce_algorithms
