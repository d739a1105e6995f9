// SPDX-License-Identifier: BSD-3-Clause
// Idea: a reduce-scatter by recursive halving, then an allgather by recursive doubling.
//
//   p = 4, blocks kept     rank 0   rank 1   rank 2   rank 3
//   distance 1, n/2         01       23       01       23
//   distance 2, n/4         0        2        1        3      each holds one finished block
//   distance 2, n/4         01       23       01       23
//   distance 1, n/2         0123     0123     0123     0123
//
// The nearest rank comes first, so that the largest halves stay inside a node if ranks are placed in blocks.
//
// Cost: 2 log2(p) a + 2n(p-1)/p b + n(p-1)/p c.
// Other sizes: ranks are folded into a power of two, + 2(a + nb) + nc.
// Order: the tree over the ranks of recursive_doubling, so the bits are equal to those.
// Source: Rabenseifner, ICCS 2004; Thakur, Rabenseifner and Gropp, IJHPCA 19(1), 2005.
#include "collectives/allreduce/allreduce.hpp"
#include "collectives/phases/recursive_halving.hpp"

namespace offbeat::allreduce_algorithms {

const Algorithm rabenseifner{
    .name = "rabenseifner",
    .summary = "recursive halving reduce-scatter, then recursive doubling allgather; large messages",
    .cost = "2 log2(q) a + 2n(q-1)/q b + n(q-1)/q c + fold(q), u = n(q-1)/q (b + max(b, c)) + [p>q] 2nb",
    .serves = {Collective::allreduce},
    .source = "Rabenseifner 2004",
    .run = recursive_halving::allreduce<hypercube>,
};

}  // namespace offbeat::allreduce_algorithms
