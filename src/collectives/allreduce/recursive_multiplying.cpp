// SPDX-License-Identifier: BSD-3-Clause
// Idea: in each step groups of up to K ranks exchange their partial results, each rank with all others.
//
//   K = 3, 9 ranks:   {0 1 2} {3 4 5} {6 7 8}   then   {0 3 6} {1 4 7} {2 5 8}
//
// A step of recursive doubling waits for one message. This algorithm has fewer steps, but sends more messages
// in each. It is for small n, where a message travels much longer than it takes to send. With K = p it is the
// direct exchange in one step.
//
// Cost: log_K(p) (a + (K-1)(nb + nc)).
// Other sizes: the radices of the steps multiply to the largest number of ranks without a prime factor above
// K. Surplus ranks are folded into their neighbours, + 2(a + nb) + nc.
// Order: rank order in each group. All its ranks combine the same operands, so they get the same bits.
// Source: Ruefenacht, Bull and Booth, Parallel Computing 69, 2017 (generalisation of recursive doubling).
#include "collectives/allreduce/allreduce.hpp"
#include "collectives/phases/combine_in_order.hpp"
#include "collectives/phases/exchange.hpp"
#include "collectives/phases/fold.hpp"
#include "patterns/radices.hpp"

namespace offbeat::allreduce_algorithms {
namespace {

Task run_without_surplus(Endpoint net, Call call, const Expression& self) {
  const Radices radices(net.size, self.radix);
  const std::size_t count = call.input.count;
  const Scratch memory = net.scratch(radices.max_others_in_group() * count, call.input.width);
  ConstVector mine = call.input;
  for (int k = 0; k < radices.steps(); ++k) {
    const RadixStep step = radices[k];
    const int member = step.member(net.rank);
    const auto theirs = [&](int other) {
      return memory.vector().slice(static_cast<std::size_t>(index_among_others(member, other)) * count,
                                   count);
    };
    // Each rank begins with a different peer.
    co_await net.concurrently(step.radix - 1, [&](const Endpoint& lane, int j) {
      const int to = (member + 1 + j) % step.radix;
      const int from = (member + step.radix - 1 - j) % step.radix;
      return exchange(lane, step.rank_of(to, net.rank), mine, step.rank_of(from, net.rank), theirs(from));
    });
    co_await combine_in_order(net, *call.op, call.output, step.radix, memory.first(count),
                              [&](int other) { return other == member ? mine.data : theirs(other).data; });
    mine = call.output;
  }
}

Task run(Endpoint net, Call call, const Expression& self) {
  const int core = Radices(net.size, self.radix).product();
  return core == net.size ? run_without_surplus(net, call, self)
                          : run_folded(net, call, self, core, run_without_surplus);
}

constexpr Parameter parameters[] = {Parameter::radix};

}  // namespace

const Algorithm recursive_multiplying{
    .name = "recursive_multiplying",
    .summary =
        "log_K(p) steps, in each of which groups of K ranks exchange the whole message; small messages",
    .cost =
        "sum(r in radices(p, K): max(a + nb + (r-2) max(nb, (1-w) o), 2(r-1)(1-w) o) + (r-1) nc) + fold(h)"
        " - (1-w) [p>h] [p<=h+h/last(p, K)] a, h = product(p, K)",
    .serves = {Collective::allreduce},
    .source = "Ruefenacht, Bull and Booth 2017",
    .parameters = parameters,
    .run = run,
    .lanes = [](const Expression& self) { return self.radix - 1; },
};

}  // namespace offbeat::allreduce_algorithms
