// SPDX-License-Identifier: BSD-3-Clause
// Idea: a reduce-scatter by recursive halving, as in Rabenseifner's allreduce, then a binomial gather.
//
//   p = 4, blocks held     rank 0   rank 1   rank 2   rank 3
//   halving                 0        2        1        3      each holds one finished block
//   distance 2, n/4         01       23       -        -
//   distance 1, n/2         0123     -        -        -
//
// Cost: 2 log2(p) a + 2n(p-1)/p b + n(p-1)/p c.
// Other sizes: ranks are folded into a power of two, + a + nb + nc.
// Order: the tree of Rabenseifner's allreduce, over the ranks counted from the root.
// Source: Rabenseifner, ICCS 2004; Thakur, Rabenseifner and Gropp, IJHPCA 19(1), 2005.
#include "collectives/phases/fold.hpp"
#include "collectives/phases/from_root.hpp"
#include "collectives/phases/recursive_halving.hpp"
#include "collectives/reduce/reduce.hpp"

namespace offbeat::reduce_algorithms {
namespace {

Task power_of_two(Endpoint net, Call call, const Expression&) {
  const int p = net.size;
  co_await recursive_halving::reduce_scatter(net, call, hypercube);
  const int first = hypercube.final_block_of(net.rank, p);
  for (int number = 1; number < p; number *= 2) {
    const int distance = p / 2 / number;
    if ((net.rank & distance) != 0) {
      co_await net.send(net.rank - distance, call.output.blocks(p, first, number));
      co_return;
    }
    co_await net.receive(net.rank + distance, call.output.blocks(p, first + number, number));
  }
}

Task run(Endpoint net, Call call, const Expression& self) {
  const Endpoint numbered = numbered_from_root(net, call.root);
  const Scratch partial = net.scratch(numbered.rank == 0 ? 0 : call.input.count, call.input.width);
  if (numbered.rank != 0) call.output = partial.vector();
  co_await run_folded_to_power_of_two(numbered, call, self, power_of_two);
}

}  // namespace

const Algorithm rabenseifner{
    .name = "rabenseifner",
    .summary = "recursive halving reduce-scatter, then a binomial gather; large messages",
    .cost =
        "2 log2(q) a + 2n(q-1)/q b + n(q-1)/q c + [p>q] (a + nb + nc), u = n(q-1)/q (b + max(b, c)) + "
        "[p>q] nb",
    .serves = {Collective::reduce},
    .source = "Rabenseifner 2004",
    .run = run,
};

}  // namespace offbeat::reduce_algorithms
