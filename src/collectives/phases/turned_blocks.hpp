// SPDX-License-Identifier: BSD-3-Clause
// TurnedBlocks lists the blocks of all ranks in the order in which an algorithm meets them: those of rank
// `first`, first + 1 and so on around.
#pragma once

#include <cstddef>

#include "collectives/call.hpp"

namespace offbeat {

class TurnedBlocks {
 public:
  // `each` is the number of elements of every block if there are no lists.
  TurnedBlocks(const BlockList& blocks, std::size_t each, int first, int ranks)
      : counts_(blocks.counts), each_(each), first_(first), ranks_(ranks) {}

  // Returns the number of elements in blocks [from, from + number) of this order.
  [[nodiscard]] std::size_t elements(int from, int number) const {
    if (counts_ == nullptr) return each_ * static_cast<std::size_t>(number);
    std::size_t sum = 0;
    for (int k = from; k < from + number; ++k) sum += counts_[(first_ + k) % ranks_];
    return sum;
  }
  // Returns these blocks of a vector that begins with the block of `first`.
  template <class AnyVector>
  [[nodiscard]] AnyVector of(const AnyVector& vector, int from, int number) const {
    return vector.slice(elements(0, from), elements(from, number));
  }

 private:
  const std::size_t* counts_;
  std::size_t each_;
  int first_;
  int ranks_;
};

}  // namespace offbeat
