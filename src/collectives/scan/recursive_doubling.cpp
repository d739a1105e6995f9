// SPDX-License-Identifier: BSD-3-Clause
// Idea: in step k each rank sends the sum of the 2^k ranks that end with it to the rank 2^k above. It adds
// what it receives from the rank 2^k below on the left.
//
//     p = 6, the ranks in each sum     0   1    2    3     4     5
//     step 0                           0   01   12   23    34    45
//     step 1                           0   01   012  0123  1234  2345
//     step 2                           0   01   012  0123  01234 012345
//
// Cost: ceil(log2 p) (a + nb + nc). In an exscan a rank also keeps a second sum, its prefix, so all steps but
// the first and the last combine twice: ceil(log2 p) (a + nb) + (2 ceil(log2 p) - 2) nc.
// Other sizes: any p, at the same cost.
// Order: rank order. The grouping of a prefix depends on its rank, not on p: 0+((1+2)+(3+4)) on rank 4.
// Source: Hillis and Steele 1986; Sanders and Traff, EuroPVM/MPI 2006, call it simultaneous binomial trees.
#include "collectives/scan/scan.hpp"

namespace offbeat::scan_algorithms {
namespace {

Task run(Endpoint net, Call call, const Expression&) {
  const int p = net.size;
  const std::size_t count = call.input.count;
  const Scratch theirs = net.scratch(net.rank > 0 ? count : 0, call.input.width);
  // The sum that this rank sends in an exscan.
  const Scratch own = net.scratch(is_exclusive(call) && net.rank > 0 ? count : 0, call.input.width);
  ConstVector sum = call.input;
  for (int distance = 1; distance < p; distance *= 2) {
    const bool receives = net.rank >= distance;
    if (net.rank + distance < p && receives) {
      co_await net.exchange(net.rank + distance, sum, net.rank - distance, theirs.vector());
    } else if (receives) {
      co_await net.receive(net.rank - distance, theirs.vector());
    } else if (net.rank + distance < p) {
      co_await net.send(net.rank + distance, sum);
    }
    if (!receives) continue;
    if (!is_exclusive(call)) {
      co_await net.reduce(*call.op, call.output, theirs.vector(), sum);
      sum = call.output;
      continue;
    }
    // This comes before the output is written, because the output may be the input.
    if (net.rank + 2 * distance < p) {
      co_await net.reduce(*call.op, own.vector(), theirs.vector(), sum);
      sum = own.vector();
    }
    if (distance == 1) {
      co_await net.copy(call.output, theirs.vector());
    } else {
      co_await net.reduce(*call.op, call.output, theirs.vector(), call.output);
    }
  }
  if (net.rank == 0 && !is_exclusive(call)) co_await net.copy(call.output, call.input);
}

}  // namespace

const Algorithm recursive_doubling{
    .name = "recursive_doubling",
    .summary = "in step k a sum of 2^k ranks goes to the rank 2^k above; short vectors",
    .cost = "max(log2(q) (a + nb + nc) + [p>q] (nc + w(a + nb)), a + ceil(log2 p) nb + nc)",
    .serves = {Collective::scan, Collective::exscan},
    .source = "Hillis and Steele 1986; Sanders and Traff 2006",
    .run = run,
};

}  // namespace offbeat::scan_algorithms
