// SPDX-License-Identifier: BSD-3-Clause
// A binary tree of depth log2(p) in which every subtree is a range of ranks, counted from the root and modulo
// p. Ranks with close numbers, whose cores are often close, are therefore close in the tree.
//
//    p = 7, root 0         0         The children of the first rank of a range are the first ranks of the
//                        1   4       two halves of the rest.
//                       2 3 5 6
#pragma once

#include <array>

namespace offbeat {

// One rank's place in the tree.
class RangeTree {
 public:
  static constexpr int nobody = -1;

  constexpr RangeTree(int rank, int ranks, int root) {
    const int place = (rank - root + ranks) % ranks;
    const auto rank_at = [&](int other) { return (other + root) % ranks; };
    int begin = 0;
    int end = ranks;
    const auto second_half = [&] { return begin + 1 + (end - begin) / 2; };
    while (begin != place) {
      parent_ = rank_at(begin);
      const int middle = second_half();
      if (place < middle) {
        end = middle;
        ++begin;
      } else {
        begin = middle;
      }
    }
    if (begin + 1 < end) children_[0] = rank_at(begin + 1);
    if (second_half() < end) children_[1] = rank_at(second_half());
  }

  // Returns the parent, or `nobody` for the root.
  [[nodiscard]] constexpr int parent() const { return parent_; }
  [[nodiscard]] constexpr const std::array<int, 2>& children() const { return children_; }
  [[nodiscard]] constexpr bool has_children() const { return children_[0] != nobody; }

 private:
  int parent_ = nobody;
  std::array<int, 2> children_{nobody, nobody};
};

}  // namespace offbeat
