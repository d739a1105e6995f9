// SPDX-License-Identifier: BSD-3-Clause
// A binomial tree with rank 0 at its root.
//
//     p = 6        0          The parent of a rank is its number without its lowest bit. The ranks of a
//               4  2  1       subtree follow one another.
//               5  3
#pragma once

#include <algorithm>
#include <bit>

namespace offbeat {

struct BinomialTree {
  int ranks;

  // Returns the distance to a rank's parent. The children of a rank are rank + reach / 2, ..., rank + 2, rank
  // + 1, except those beyond the last rank.
  [[nodiscard]] constexpr int reach(int rank) const {
    return rank == 0 ? static_cast<int>(std::bit_ceil(static_cast<unsigned>(ranks))) : rank & -rank;
  }
  [[nodiscard]] constexpr int parent(int rank) const { return rank - reach(rank); }
  // Returns the number of ranks in the subtree whose root is `rank`.
  [[nodiscard]] constexpr int size(int rank) const { return std::min(reach(rank), ranks - rank); }
};

}  // namespace offbeat
