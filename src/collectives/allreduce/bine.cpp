// SPDX-License-Identifier: BSD-3-Clause
// Idea: rabenseifner over the butterfly of Bine trees, whose ranks are closer to one another.
//
//   p = 8, exchanges       distance  1   0-1   2-3   4-5   6-7     n/2
//                          distance -1   0-7   2-1   4-3   6-5     n/4
//                          distance  3   0-3   2-5   4-7   6-1     n/8, and back in reverse order
//
// The distances 1, 1, 3, 5, 11, 21 add up to two thirds of those of rabenseifner, 1, 2, 4, 8, 16, 32. So
// fewer bytes cross from one part of the network to another, if the sizes of the parts are not powers of two
// or the parts begin elsewhere. If parts of 2^k ranks begin at multiples of 2^k, rabenseifner has k steps
// that cross nothing, and this algorithm has none.
//
// Cost: 2 log2(p) a + 2n(p-1)/p b + n(p-1)/p c.
// Other sizes: ranks are folded into a power of two, + 2(a + nb) + nc.
// Order: the lower rank's operand is on the left in each step. Which ranks meet depends on the block, so the
// order for an element depends on its position in the message. One rank combines each block, so all ranks get
// the same bits. An exchange of whole vectors over this butterfly, for short messages, would combine in a
// different tree on each pair of ranks; use recursive_doubling for those.
// Source: De Sensi et al., SC 2025 (arXiv 2508.17311).
#include "collectives/allreduce/allreduce.hpp"
#include "collectives/phases/recursive_halving.hpp"

namespace offbeat::allreduce_algorithms {

const Algorithm bine{
    .name = "bine",
    .summary = "rabenseifner with closer ranks, by negabinary distances; large messages",
    .cost = "2 log2(q) a + 2n(q-1)/q b + n(q-1)/q c + fold(q), u = n(q-1)/q (b + max(b, c)) + [p>q] 2nb",
    .serves = {Collective::allreduce},
    .source = "De Sensi et al. 2025",
    .run = recursive_halving::allreduce<bine_butterfly>,
};

}  // namespace offbeat::allreduce_algorithms
