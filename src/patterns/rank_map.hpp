// SPDX-License-Identifier: BSD-3-Clause
// RankMap says which ranks form a part of a communicator. It is arithmetic, so that 10^5 simulated ranks need
// no tables.
#pragma once

#include <algorithm>

namespace offbeat {

// Member i of the part is  first + stride * (i * smaller_group_size + min(i, larger_groups)), or list[i] if
// there is a list.
// `smaller_group_size` and `larger_groups` describe the leaders of contiguous groups: the first
// `larger_groups` groups have smaller_group_size + 1 ranks, the others have `smaller_group_size`. A plain row
// or column has groups of one rank and no larger ones. Lists are for parts without a formula: the ranks of a
// node, or one rank of each node.
struct RankMap {
  int first = 0;
  int stride = 1;
  int smaller_group_size = 1;
  int larger_groups = 0;
  const int* list = nullptr;
  const int* list_starts = nullptr;  // if set, member i is list[list_starts[i] + first]
  int wraps_at = 0;                  // if not 0, member i is rank (first + i) mod wraps_at
  int replaced_member = -1;          // if not -1, this member is rank `replacement_rank` instead
  int replacement_rank = -1;

  [[nodiscard]] constexpr int operator()(int member) const {
    if (member == replaced_member) return replacement_rank;
    if (wraps_at != 0) return (first + member) % wraps_at;
    if (list != nullptr) return list[list_starts != nullptr ? list_starts[member] + first : member];
    return first + stride * (member * smaller_group_size + std::min(member, larger_groups));
  }
};

// Splits `ranks` ranks into `group_count` contiguous groups of nearly equal size. There are from one group to
// `ranks` groups. The first rank of a group is its leader. This folds surplus ranks into a convenient number
// of ranks, such as a power of two or a grid.
struct Groups {
  int ranks;
  int group_count;

  [[nodiscard]] constexpr int smaller_group_size() const { return ranks / group_count; }
  [[nodiscard]] constexpr int larger_groups() const { return ranks % group_count; }
  [[nodiscard]] constexpr int group_of(int rank) const {
    const int in_wide = larger_groups() * (smaller_group_size() + 1);
    return rank < in_wide ? rank / (smaller_group_size() + 1)
                          : larger_groups() + (rank - in_wide) / smaller_group_size();
  }
  [[nodiscard]] constexpr int leader(int group) const { return leaders()(group); }
  [[nodiscard]] constexpr int members(int group) const {
    return smaller_group_size() + (group < larger_groups() ? 1 : 0);
  }
  [[nodiscard]] constexpr RankMap leaders() const {
    return {.smaller_group_size = smaller_group_size(), .larger_groups = larger_groups()};
  }
};

}  // namespace offbeat
