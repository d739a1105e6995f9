// SPDX-License-Identifier: BSD-3-Clause
// A tree of ranks in which every subtree is a range of ranks, for any root.
//
// A block of level l is a range of radix^l ranks that begins at a multiple of radix^l; the last block may be
// shorter. One rank represents each block: the root if it is in the block, otherwise the lowest rank. The
// blocks of level l inside a block of level l + 1 form a group. The rank that represents the larger block is
// the parent of the ranks that represent the other blocks of the group.
//
//    radix 4, root 0                        root 6
//    0 1 2 3   4 5 6 7   8 9 10 11          0 1 2 3   4 5 6 7   8 9 10 11
//    0         4         8                  0             6     8
//    0                                                    6
//
// For every root the depth is ceil(log(p) / log(radix)). If each group is combined in the order of its
// blocks, all operands are combined in rank order.
#pragma once

#include <algorithm>

namespace offbeat {

// One rank's place in the tree.
class RadixTree {
 public:
  // The radix is 2^bits.
  constexpr RadixTree(int rank, int ranks, int root, int bits)
      : rank_(rank), ranks_(ranks), root_(root), radix_bits_(bits) {
    while ((1 << block_bits_) < ranks_) {
      parent_ =
          representative_of_block(block_bits_ + radix_bits_, first_rank_of_block(block_bits_ + radix_bits_));
      if (parent_ != rank_) return;
      block_bits_ += radix_bits_;
      ++height_;
    }
  }
  constexpr RadixTree() : RadixTree(0, 1, 0, 1) {}

  // Returns the number of levels at which this rank represents a block above itself. It has children in that
  // many groups.
  [[nodiscard]] constexpr int height() const { return height_; }
  [[nodiscard]] constexpr bool is_root() const { return rank_ == root_; }
  // Returns the parent; the root has none.
  [[nodiscard]] constexpr int parent() const { return parent_; }
  // begin() and size() describe the range of ranks in this rank's subtree, which includes the rank itself.
  [[nodiscard]] constexpr int begin() const { return first_rank_of_block(block_bits_); }
  [[nodiscard]] constexpr int size() const { return std::min(1 << block_bits_, ranks_ - begin()); }

  // A group, seen from this rank: the blocks of one level inside the block of the next level that contains
  // this rank.
  class Group {
   public:
    [[nodiscard]] constexpr int size() const { return size_; }
    // Returns the index of the block that contains this rank.
    [[nodiscard]] constexpr int own_block() const { return (tree_.rank_ - begin_) >> block_bits_; }
    // For a block of the group: the rank that represents it, its first rank, and its number of ranks.
    [[nodiscard]] constexpr int rank(int block) const {
      return tree_.representative_of_block(block_bits_, begin(block));
    }
    [[nodiscard]] constexpr int begin(int block) const { return begin_ + (block << block_bits_); }
    [[nodiscard]] constexpr int size(int block) const {
      return std::min(1 << block_bits_, tree_.ranks_ - begin(block));
    }

   private:
    friend class RadixTree;
    constexpr Group(const RadixTree& tree, int shift)
        : tree_(tree),
          block_bits_(shift),
          begin_(tree.first_rank_of_block(shift + tree.radix_bits_)),
          size_(std::min(1 << tree.radix_bits_, ((tree.ranks_ - begin_ - 1) >> shift) + 1)) {}
    const RadixTree& tree_;
    int block_bits_;
    int begin_;
    int size_;
  };
  // Returns the group of blocks of a level below height(). The children of this rank are the other ranks that
  // represent blocks in these groups.
  [[nodiscard]] constexpr Group group(int level) const { return {*this, level * radix_bits_}; }

 private:
  // Returns the first rank of the block of 2^shift ranks that contains this rank.
  [[nodiscard]] constexpr int first_rank_of_block(int shift) const { return rank_ >> shift << shift; }
  [[nodiscard]] constexpr int representative_of_block(int shift, int begin) const {
    return root_ >> shift == begin >> shift ? root_ : begin;
  }

  int rank_;
  int ranks_;
  int root_;
  int radix_bits_;
  int height_ = 0;
  int block_bits_ = 0;  // this rank represents a block of 2^block_bits_ ranks
  int parent_ = 0;
};

}  // namespace offbeat
