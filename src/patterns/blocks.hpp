// SPDX-License-Identifier: BSD-3-Clause
// Cuts a vector into blocks of nearly equal length: the first (count mod parts) blocks are one element
// longer.
#pragma once

#include <algorithm>
#include <cstddef>

namespace offbeat {

// Returns the first element of block `index`, 0 <= index <= parts. For index == parts this is `count`.
[[nodiscard]] constexpr std::size_t block_begin(std::size_t count, int parts, int index) {
  const auto number = static_cast<std::size_t>(parts);
  const auto position = static_cast<std::size_t>(index);
  return position * (count / number) + std::min(position, count % number);
}

}  // namespace offbeat
