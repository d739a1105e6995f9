// SPDX-License-Identifier: BSD-3-Clause
// Idea: a binomial reduce to rank 0, then a binomial broadcast.
// Cost: ceil(log2 p)(2a + 2nb + nc).
// Other sizes: any p.
// Order: the tree of recursive_doubling for powers of two, and rank order inside every subtree.
// Source: Castelló et al. 2021, table 1; "non-overlapping" in Nuriyev et al. 2024 (SUARA).
#include "collectives/allreduce/allreduce.hpp"
#include "collectives/bcast/bcast.hpp"
#include "collectives/reduce/reduce.hpp"

namespace offbeat::allreduce_algorithms {
namespace {

Task run(Endpoint net, Call call, const Expression&) {
  co_await reduce_to_rank_0::binomial(net, call);
  co_await bcast_from_rank_0::binomial(net, call);
}

}  // namespace

const Algorithm binomial{
    .name = "binomial",
    .summary = "binomial reduce to rank 0, then binomial broadcast",
    .cost =
        "max(log2(q) (a + nb + nc) + [p>q] (nc + w(a + nb)), a + ceil(log2 p) nb + nc) + log2(q) (a + "
        "nb) + [p>q] (nb + wa), k = 2",
    .serves = {Collective::allreduce},
    .source = "Castelló et al. 2021",
    .run = run,
};

}  // namespace offbeat::allreduce_algorithms
