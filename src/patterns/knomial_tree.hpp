// SPDX-License-Identifier: BSD-3-Clause
// A k-nomial tree with rank 0 at its root. With radix 2 it is the binomial tree.
//
//     p = 6, radix 2     0          p = 9, radix 3        0
//                     4  2  1                       6  3  1 2
//                     5  3                         78 45
//
// The parent of a rank is its number without its lowest digit other than 0, written with this radix. The
// ranks of a subtree follow one another.
#pragma once

#include <algorithm>

namespace offbeat {

struct KnomialTree {
  int ranks;
  int radix = 2;

  // Returns the largest number of ranks that the subtree of a rank can have: a power of the radix. The
  // children of a rank are rank + j * distance, for 0 < j < radix and each power `distance` of the radix
  // below its reach, except those beyond the last rank.
  [[nodiscard]] constexpr int reach(int rank) const {
    int reach = 1;
    while (reach < ranks && rank % (reach * radix) == 0) reach *= radix;
    return reach;
  }
  [[nodiscard]] constexpr int parent(int rank) const { return rank - rank % (reach(rank) * radix); }
  // Returns the number of ranks in the subtree whose root is `rank`.
  [[nodiscard]] constexpr int size(int rank) const { return std::min(reach(rank), ranks - rank); }
};

}  // namespace offbeat
