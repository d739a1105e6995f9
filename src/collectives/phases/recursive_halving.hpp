// SPDX-License-Identifier: BSD-3-Clause
// The two halves of `rabenseifner` (allreduce and reduce) and of `bine`. p ranks, a power of two, each keep
// half of their blocks in every step of a butterfly, and collect the blocks on the way back.
//
//   hypercube, p = 4, blocks kept   rank 0   rank 1   rank 2   rank 3
//   distance 1, n/2                  01       23       01       23
//   distance 2, n/4                  0        2        1        3
//
// The nearest rank comes first. So the largest halves stay inside a node if ranks are placed in blocks.
#pragma once

#include "collectives/algorithm.hpp"
#include "collectives/phases/fold.hpp"
#include "patterns/butterfly.hpp"

namespace offbeat::recursive_halving {

// Reduces and scatters. Each rank ends with one block of the combined vector, Butterfly::block_of, in its
// place in `output`. Other places in `output` hold partial results. In each step the operand of the lower
// rank is on the left; with the hypercube the order is that of recursive_doubling.
// Cost: log2(p) a + n(p-1)/p (b + c).
[[nodiscard]] Task reduce_scatter(Endpoint net, Call call, const Butterfly& butterfly);

// Collects the blocks that reduce_scatter() leaves: each rank ends with all blocks of `all`.
// Cost: log2(p) a + n(p-1)/p b.
[[nodiscard]] Task allgather(Endpoint net, Vector all, const Butterfly& butterfly);

// Runs an allreduce on any number of ranks as reduce_scatter() and allgather(); this is an Algorithm::run.
template <const Butterfly& butterfly>
[[nodiscard]] Task allreduce(Endpoint net, Call call, const Expression& self) {
  return run_folded_to_power_of_two(net, call, self,
                                    [](Endpoint some, Call of_some, const Expression&) -> Task {
                                      co_await reduce_scatter(some, of_some, butterfly);
                                      co_await allgather(some, of_some.output, butterfly);
                                    });
}

}  // namespace offbeat::recursive_halving
