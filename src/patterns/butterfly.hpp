// SPDX-License-Identifier: BSD-3-Clause
// Butterflies: p ranks, a power of two, halve p blocks in log2(p) steps, in each of which every rank
// exchanges with another one.
//
// Two ranks that exchange in step k have the same blocks before it, p / 2^k that follow one another. One of
// them keeps the lower half, and the other one the upper half. So each rank ends with one block.
//
// The hypercube: step k goes to the rank at distance 2^k.
//
//   p = 8   step 0   0-1   2-3   4-5   6-7       1 3 5 7 keep the upper half
//           step 1   0-2   1-3   4-6   5-7       2 3 6 7
//           step 2   0-4   1-5   2-6   3-7       4 5 6 7
//
// The Bine butterfly (binomial negabinary): the distance is the number that k + 1 ones are to the base -2,
// 1 - 2 + 4 - ..., that is 1, -1, 3, -5, 11, -21. Even ranks go so far up, odd ones down, around the end.
// These distances add up to two thirds of those of the hypercube.
//
//   p = 8   step 0   0-1   2-3   4-5   6-7       1 2 5 6 keep the upper half
//           step 1   0-7   2-1   4-3   6-5       1 4 6 7
//           step 2   0-3   2-5   4-7   6-1       1 3 5 7
//
// Why these halves: the distances of steps j and k > j differ by an odd multiple of 2^(j+1). So an even rank
// that goes by one of them and back by the other arrives so far away, with another bit j + 1, while steps
// after j leave that bit as it is. Therefore it says which half the rank keeps in step j. An odd rank goes by
// the number of the even rank that it meets in the last step, and there it keeps the upper half.
// Source: De Sensi et al., SC 2025, for the distances; the halves are ours. In the paper ranks are given
// other numbers, and each ends with the block of its own rank.
#pragma once

#include <bit>

namespace offbeat {

struct Butterfly {
  // With whom a rank exchanges in a step, and whether it keeps the upper half.
  int (*peer)(int rank, int step, int ranks);
  bool (*keeps_upper)(int rank, int step, int ranks);

  [[nodiscard]] static constexpr int steps(int ranks) {
    return std::bit_width(static_cast<unsigned>(ranks)) - 1;
  }
  // The block with which a rank ends.
  [[nodiscard]] constexpr int block_of(int rank, int ranks) const {
    int block = 0;
    for (int step = 0; step < steps(ranks); ++step) {
      block = 2 * block + (keeps_upper(rank, step, ranks) ? 1 : 0);
    }
    return block;
  }
};

inline constexpr Butterfly hypercube{
    .peer = [](int rank, int step, int) { return rank ^ 1 << step; },
    .keeps_upper = [](int rank, int step, int) { return (rank >> step & 1) != 0; },
};

namespace bine_steps {

[[nodiscard]] constexpr bool is_odd(int number) { return (number & 1) != 0; }
[[nodiscard]] constexpr int distance(int step) {
  const int power = 2 << step;  // (-2)^(step+1) without its sign
  return (1 + (is_odd(step) ? -power : power)) / 3;
}
[[nodiscard]] constexpr int peer(int rank, int step, int ranks) {
  return (is_odd(rank) ? rank - distance(step) : rank + distance(step)) & (ranks - 1);
}
[[nodiscard]] constexpr bool keeps_upper(int rank, int step, int ranks) {
  const int last = Butterfly::steps(ranks) - 1;
  if (step == last) return is_odd(rank);
  const int even = is_odd(rank) ? peer(rank, last, ranks) : rank;
  return is_odd(even >> (step + 1));
}

}  // namespace bine_steps

inline constexpr Butterfly bine_butterfly{
    .peer = bine_steps::peer,
    .keeps_upper = bine_steps::keeps_upper,
};

}  // namespace offbeat
