// SPDX-License-Identifier: BSD-3-Clause
// A butterfly of ranks, of any number.
//
// At level l every rank of a block of radix^l ranks has what that block has together. The last block may be
// shorter. The blocks of level l inside a block of level l + 1 form a group. A rank takes the data of each
// other block of its group from one rank there: from the one at its own place in the block, or from the last
// one if the block is too short.
//
//     radix 4, 10 ranks     0 1 2 3   4 5 6 7   8 9
//     level 1, rank 6 takes from 2 and 9, and rank 8 from 0 and 4
//
// There are ceil(log(p) / log(radix)) levels. If each group is combined in the order of its blocks, all
// operands are combined in rank order, and alike on all ranks.
#pragma once

#include <algorithm>

namespace offbeat {

class RadixButterfly {
 public:
  // The radix is 2^bits, and bits > 0.
  constexpr RadixButterfly(int rank, int ranks, int bits) : rank_(rank), ranks_(ranks), bits_(bits) {}

  [[nodiscard]] constexpr int levels() const {
    int found = 0;
    while ((1 << found * bits_) < ranks_) ++found;
    return found;
  }

  // The blocks of a level in this rank's group.
  class Group {
   public:
    [[nodiscard]] constexpr int size() const { return ((end_ - begin_ - 1) >> shift_) + 1; }
    [[nodiscard]] constexpr int own_block() const { return (rank_ - begin_) >> shift_; }
    // Returns the rank from which this one takes the data of a block.
    [[nodiscard]] constexpr int source(int block) const {
      return std::min(first(block) + place(), last(block));
    }
    // Calls see(rank) for each rank that takes data from this one, until see() returns false. Returns true if
    // it never did.
    template <class See>
    [[nodiscard]] constexpr bool all_takers_satisfy(See&& see) const {
      for (int block = 0; block < size(); ++block) {
        if (block == own_block() || first(block) + place() > last(block)) continue;
        const int end = rank_ == last(own_block()) ? last(block) : first(block) + place();
        for (int taker = first(block) + place(); taker <= end; ++taker) {
          if (!see(taker)) return false;
        }
      }
      return true;
    }

   private:
    friend class RadixButterfly;
    constexpr Group(int rank, int ranks, int shift, int bits)
        : rank_(rank),
          shift_(shift),
          begin_(rank >> (shift + bits) << (shift + bits)),
          end_(std::min(begin_ + (1 << (shift + bits)), ranks)) {}
    [[nodiscard]] constexpr int first(int block) const { return begin_ + (block << shift_); }
    [[nodiscard]] constexpr int last(int block) const { return std::min(first(block + 1), end_) - 1; }
    [[nodiscard]] constexpr int place() const { return (rank_ - begin_) & ((1 << shift_) - 1); }
    int rank_;
    int shift_;
    int begin_;
    int end_;
  };
  [[nodiscard]] constexpr Group group(int level) const { return {rank_, ranks_, level * bits_, bits_}; }

 private:
  int rank_;
  int ranks_;
  int bits_;
};

}  // namespace offbeat
