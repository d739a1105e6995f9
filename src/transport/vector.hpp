// SPDX-License-Identifier: BSD-3-Clause
// A vector is a view of `count` elements of `width` bytes. It owns nothing.
//
// A view may be a phantom (data == nullptr and count > 0). The simulator then accounts for its bytes and
// moves none, so large simulated runs need no memory.
#pragma once

#include <cstddef>

#include "patterns/blocks.hpp"

namespace offbeat {

template <class Byte>
struct BasicVector {
  Byte* data = nullptr;
  std::size_t count = 0;  // elements
  std::size_t width = 1;  // bytes per element

  [[nodiscard]] std::size_t bytes() const { return count * width; }

  [[nodiscard]] BasicVector slice(std::size_t first, std::size_t length) const {
    return {data == nullptr ? nullptr : data + first * width, length, width};
  }
  // Returns block `index` of `parts` blocks of nearly equal length.
  [[nodiscard]] BasicVector block(int parts, int index) const { return blocks(parts, index, 1); }
  // Returns `number` consecutive blocks that begin with block `first`.
  [[nodiscard]] BasicVector blocks(int parts, int first, int number) const {
    const std::size_t begin = block_begin(count, parts, first);
    return slice(begin, block_begin(count, parts, first + number) - begin);
  }

  operator BasicVector<const Byte>() const { return {data, count, width}; }
};

using Vector = BasicVector<std::byte>;
using ConstVector = BasicVector<const std::byte>;

}  // namespace offbeat
