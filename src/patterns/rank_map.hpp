// SPDX-License-Identifier: BSD-3-Clause
// RankMap says which ranks form a part of a communicator. It is arithmetic, so that 10^5 simulated ranks need
// no tables.
#pragma once

#include <algorithm>

namespace offbeat {

// Member i of the part is rank  first + stride * (i * width + min(i, wide)), or list[i] if there is a list.
// `width` and `wide` describe the leaders of contiguous groups: the first `wide` groups have width + 1 ranks,
// the others have `width`. A plain row or column has width 1 and wide 0. Lists are for parts without a
// formula: the ranks of a node, or one rank of each node.
struct RankMap {
  int first = 0;
  int stride = 1;
  int width = 1;
  int wide = 0;
  const int* list = nullptr;
  const int* starts = nullptr;  // if set, member i is list[starts[i] + first]
  int ring = 0;                 // if not 0, member i is rank (first + i) mod ring
  int replaced = -1;            // if not -1, this member is rank `replacement` instead
  int replacement = -1;

  [[nodiscard]] constexpr int operator()(int member) const {
    if (member == replaced) return replacement;
    if (ring != 0) return (first + member) % ring;
    if (list != nullptr) return list[starts != nullptr ? starts[member] + first : member];
    return first + stride * (member * width + std::min(member, wide));
  }
};

// Splits `size` ranks into `groups` contiguous groups of nearly equal size, 1 <= groups <= size. The first
// rank of a group is its leader. This folds surplus ranks into a convenient number of ranks, such as a power
// of two or a grid.
struct Groups {
  int size;
  int groups;

  [[nodiscard]] constexpr int width() const { return size / groups; }
  [[nodiscard]] constexpr int wide() const { return size % groups; }
  [[nodiscard]] constexpr int group_of(int rank) const {
    const int in_wide = wide() * (width() + 1);
    return rank < in_wide ? rank / (width() + 1) : wide() + (rank - in_wide) / width();
  }
  [[nodiscard]] constexpr int leader(int group) const { return leaders()(group); }
  [[nodiscard]] constexpr int members(int group) const { return width() + (group < wide() ? 1 : 0); }
  [[nodiscard]] constexpr RankMap leaders() const { return {.width = width(), .wide = wide()}; }
};

}  // namespace offbeat
