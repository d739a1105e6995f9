// SPDX-License-Identifier: BSD-3-Clause
// RotatedBlocks lists the blocks of all ranks from that of rank `first` on. After the last rank comes rank 0.
#pragma once

#include <cstddef>

#include "collectives/call.hpp"

namespace offbeat {

class RotatedBlocks {
 public:
  // `each` is the number of elements of every block if there are no lists.
  RotatedBlocks(const BlockList& blocks, std::size_t each, int first, int ranks)
      : counts_(blocks.counts), uniform_length_(each), first_block_(first), ranks_(ranks) {}

  // Returns the number of elements in blocks [from, from + number) of this order.
  [[nodiscard]] std::size_t elements(int from, int number) const {
    if (counts_ == nullptr) return uniform_length_ * static_cast<std::size_t>(number);
    std::size_t sum = 0;
    for (int k = from; k < from + number; ++k) sum += counts_[(first_block_ + k) % ranks_];
    return sum;
  }
  // Returns these blocks of a vector that begins with the block of `first`.
  template <class AnyVector>
  [[nodiscard]] AnyVector blocks_from(const AnyVector& vector, int from, int number) const {
    return vector.slice(elements(0, from), elements(from, number));
  }

 private:
  const std::size_t* counts_;
  std::size_t uniform_length_;
  int first_block_;
  int ranks_;
};

}  // namespace offbeat
