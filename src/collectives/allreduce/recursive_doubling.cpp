// SPDX-License-Identifier: BSD-3-Clause
// Idea: in step k every rank swaps its partial result with the rank 2^k away.
// Cost: log2(p) (a + nb + nc): the fewest steps, but each has the whole message, so this is for small n.
// Other sizes: surplus ranks are folded into their neighbours, + 2(a + nb) + nc.
// Order: a balanced tree over the ranks; partners combine the same two operands in the same order.
// Source: Thakur, Rabenseifner and Gropp, IJHPCA 19(1), 2005; Bienz, Olson and Gropp 2019, section 2.1.
#include "collectives/allreduce/allreduce.hpp"
#include "collectives/phases/fold.hpp"

namespace offbeat::allreduce_algorithms {
namespace {

Task power_of_two(Endpoint net, Call call, const Expression&) {
  const Scratch theirs = net.scratch(call.input.count, call.input.width);
  ConstVector mine = call.input;
  for (int distance = 1; distance < net.size; distance *= 2) {
    const int peer = net.rank ^ distance;
    co_await net.exchange(peer, mine, theirs.vector());
    co_await net.reduce_by_rank(*call.op, call.output, peer, mine, theirs.vector());
    mine = call.output;
  }
}

Task run(Endpoint net, Call call, const Expression& self) {
  return run_folded_to_power_of_two(net, call, self, power_of_two);
}

}  // namespace

const Algorithm recursive_doubling{
    .name = "recursive_doubling",
    .summary = "log2(p) exchanges of the whole message; small messages",
    .cost = "log2(q) (a + nb + nc) + fold(q) - (1-w) [p>q] [2p<=3q] a",
    .serves = {Collective::allreduce},
    .source = "Thakur, Rabenseifner and Gropp 2005",
    .order = "recursive doubling",
    .run = run,
};

}  // namespace offbeat::allreduce_algorithms
