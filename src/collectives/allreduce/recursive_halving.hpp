// SPDX-License-Identifier: BSD-3-Clause
// The first half of `rabenseifner`, of allreduce and of reduce: p, a power of two, ranks each keep half of
// their blocks, with the nearest rank first.
//
//   p = 4, blocks kept     rank 0   rank 1   rank 2   rank 3
//   distance 1, n/2         01       23       01       23
//   distance 2, n/4         0        2        1        3
//
// The nearest rank comes first, so that the largest halves stay inside a node when ranks are placed in
// blocks.
#pragma once

#include "collectives/algorithm.hpp"

namespace offbeat::recursive_halving {

// Each rank ends with one block of the combined vector, in its place in `output`. Other places in `output`
// hold partial results. The order of operands is that of recursive_doubling.
// Cost: log2(p) a + n(p-1)/p (b + c).
[[nodiscard]] Task reduce_scatter(Endpoint net, Call call);

// That block: the bits of the rank in backward order.
[[nodiscard]] constexpr int block_of(int rank, int ranks) {
  int block = 0;
  for (int distance = 1; distance < ranks; distance *= 2) {
    if ((rank & distance) != 0) block += ranks / 2 / distance;
  }
  return block;
}

}  // namespace offbeat::recursive_halving
