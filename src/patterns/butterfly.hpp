// SPDX-License-Identifier: BSD-3-Clause
// A butterfly is a pattern in which p ranks (a power of two) exchange in pairs for log2(p) steps and thereby
// halve p blocks.
//
// Before step k the two ranks of a pair have the same p / 2^k blocks, which follow one another. One of the
// two keeps the lower half of them, and the other keeps the upper half. So each rank ends with one block.
//
// In the hypercube, the two ranks of a pair in step k are 2^k apart.
//
//  p = 8   step 0   0-1   2-3   4-5   6-7       1 3 5 7 keep the upper half
//          step 1   0-2   1-3   4-6   5-7       2 3 6 7
//          step 2   0-4   1-5   2-6   3-7       4 5 6 7
//
// In the Bine butterfly (binomial negabinary), the distance in step k is the number that k + 1 ones denote in
// base -2: 1 - 2 + 4 - ..., which is 1, -1, 3, -5, 11, -21. Even ranks add it and odd ranks subtract it,
// modulo p. The sum of these distances is two thirds of that of the hypercube.
//
//  p = 8   step 0   0-1   2-3   4-5   6-7       1 2 5 6 keep the upper half
//          step 1   0-7   2-1   4-3   6-5       1 4 6 7
//          step 2   0-3   2-5   4-7   6-1       1 3 5 7
//
// Why these halves: the distances of steps j and k > j differ by an odd multiple of 2^(j+1). Suppose that an
// even rank goes along one of them and back along the other. It arrives at a rank that differs in bit j + 1,
// and later steps do not change that bit. So bit j + 1 says which half an even rank keeps in step j. An odd
// rank uses the number of the even rank that it meets in the last step. In the last step itself odd ranks
// keep the upper half.
//
// Source: De Sensi et al., SC 2025, for the distances. The choice of halves is ours: the paper renumbers the
// ranks, and each rank ends with the block of its own number.
#pragma once

#include <bit>

namespace offbeat {

struct Butterfly {
  // The rank with which `rank` exchanges in a step, and whether it keeps the upper half of the blocks.
  int (*peer)(int rank, int step, int ranks);
  bool (*keeps_upper_half)(int rank, int step, int ranks);

  [[nodiscard]] static constexpr int steps(int ranks) {
    return std::bit_width(static_cast<unsigned>(ranks)) - 1;
  }
  // Returns the block with which a rank ends.
  [[nodiscard]] constexpr int final_block_of(int rank, int ranks) const {
    int block = 0;
    for (int step = 0; step < steps(ranks); ++step) {
      block = 2 * block + (keeps_upper_half(rank, step, ranks) ? 1 : 0);
    }
    return block;
  }
};

inline constexpr Butterfly hypercube{
    .peer = [](int rank, int step, int) { return rank ^ 1 << step; },
    .keeps_upper_half = [](int rank, int step, int) { return (rank >> step & 1) != 0; },
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
[[nodiscard]] constexpr bool keeps_upper_half(int rank, int step, int ranks) {
  const int last = Butterfly::steps(ranks) - 1;
  if (step == last) return is_odd(rank);
  const int even = is_odd(rank) ? peer(rank, last, ranks) : rank;
  return is_odd(even >> (step + 1));
}

}  // namespace bine_steps

inline constexpr Butterfly bine_butterfly{
    .peer = bine_steps::peer,
    .keeps_upper_half = bine_steps::keeps_upper_half,
};

}  // namespace offbeat
