// SPDX-License-Identifier: BSD-3-Clause
// A tree of ranks in which every subtree is a range of ranks, for any root.
//
// A block of level l is a range of radix^l ranks that begins at a multiple of this number; the last one may
// be shorter. One rank stands for each block: the root, where it is in the block, else the lowest. The blocks
// of level l within a block of level l + 1 are a group. The rank that stands for the larger block is the
// parent of those that stand for the others.
//
//     radix 4, root 0                        root 6
//     0 1 2 3   4 5 6 7   8 9 10 11          0 1 2 3   4 5 6 7   8 9 10 11
//     0         4         8                  0             6     8
//     0                                                    6
//
// Whatever the root is, the depth is ceil(log(p) / log(radix)), and what is combined group by group, in the
// order of the blocks, is combined in the same order.
#pragma once

#include <algorithm>

namespace offbeat {

// One rank's place in the tree.
class RadixTree {
 public:
  // The radix is 2^bits.
  constexpr RadixTree(int rank, int ranks, int root, int bits)
      : rank_(rank), ranks_(ranks), root_(root), bits_(bits) {
    while ((1 << shift_) < ranks_) {
      parent_ = of_block(shift_ + bits_, begin_of_block(shift_ + bits_));
      if (parent_ != rank_) return;
      shift_ += bits_;
      ++height_;
    }
  }
  constexpr RadixTree() : RadixTree(0, 1, 0, 1) {}

  // It stands for its blocks up to this level, so it has children in so many groups.
  [[nodiscard]] constexpr int height() const { return height_; }
  [[nodiscard]] constexpr bool is_root() const { return rank_ == root_; }
  // Not of the root.
  [[nodiscard]] constexpr int parent() const { return parent_; }
  // The ranks below it and itself.
  [[nodiscard]] constexpr int begin() const { return begin_of_block(shift_); }
  [[nodiscard]] constexpr int size() const { return std::min(1 << shift_, ranks_ - begin()); }

  // The blocks of one level in the block of the next level that this rank is in.
  class Group {
   public:
    [[nodiscard]] constexpr int size() const { return size_; }
    // The index of the block in which this rank is.
    [[nodiscard]] constexpr int mine() const { return (tree_.rank_ - begin_) >> shift_; }
    // Who stands for a block, the first rank in it, and how many there are.
    [[nodiscard]] constexpr int rank(int block) const { return tree_.of_block(shift_, begin(block)); }
    [[nodiscard]] constexpr int begin(int block) const { return begin_ + (block << shift_); }
    [[nodiscard]] constexpr int size(int block) const {
      return std::min(1 << shift_, tree_.ranks_ - begin(block));
    }

   private:
    friend class RadixTree;
    constexpr Group(const RadixTree& tree, int shift)
        : tree_(tree),
          shift_(shift),
          begin_(tree.begin_of_block(shift + tree.bits_)),
          size_(std::min(1 << tree.bits_, ((tree.ranks_ - begin_ - 1) >> shift) + 1)) {}
    const RadixTree& tree_;
    int shift_;
    int begin_;
    int size_;
  };
  // Its children are those of the groups of all levels below its height, but itself.
  [[nodiscard]] constexpr Group group(int level) const { return {*this, level * bits_}; }

 private:
  // Of the block of 2^shift ranks in which this rank is.
  [[nodiscard]] constexpr int begin_of_block(int shift) const { return rank_ >> shift << shift; }
  [[nodiscard]] constexpr int of_block(int shift, int begin) const {
    return root_ >> shift == begin >> shift ? root_ : begin;
  }

  int rank_;
  int ranks_;
  int root_;
  int bits_;
  int height_ = 0;
  int shift_ = 0;  // height * bits
  int parent_ = 0;
};

}  // namespace offbeat
