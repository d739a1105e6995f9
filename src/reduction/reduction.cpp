// SPDX-License-Identifier: BSD-3-Clause
#include "reduction/reduction.hpp"

#include <algorithm>
#include <utility>

#include "base/copy.hpp"
#include "base/pool.hpp"

namespace offbeat {

// Combines block by block in two scratch blocks. They are needed because the host overwrites its right
// operand, which may be the user's input, and because the destination may be any of the operands. With two
// operands the destination can hold the right operand, unless the left one is there.
void Reduction::reduce_by_host(void* destination, const void* const* operands, std::size_t operand_count,
                               std::size_t count) const {
  constexpr std::size_t block_bytes = 16 * 1024;
  const std::size_t block = std::max<std::size_t>(1, block_bytes / std::max<std::size_t>(width, 1));
  if (operand_count == 2 && destination != operands[0]) {
    for (std::size_t first = 0; first < count; first += block) {
      const std::size_t length = std::min(block, count - first);
      std::byte* const result = static_cast<std::byte*>(destination) + first * width;
      const auto* right = static_cast<const std::byte*>(operands[1]) + first * width;
      if (result != right) offbeat::copy(result, right, length * width);
      host->combine(static_cast<const std::byte*>(operands[0]) + first * width, result, length);
    }
    return;
  }
  const pool::Block scratch(2 * block * width);  // released even if the host's function throws
  std::byte* partial = scratch.data();
  std::byte* next = partial + block * width;
  for (std::size_t first = 0; first < count; first += block) {
    const std::size_t length = std::min(block, count - first);
    const std::size_t offset = first * width;
    const auto operand = [&](std::size_t k) { return static_cast<const std::byte*>(operands[k]) + offset; };
    offbeat::copy(partial, operand(0), length * width);
    for (std::size_t k = 1; k < operand_count; ++k) {
      offbeat::copy(next, operand(k), length * width);
      host->combine(partial, next, length);
      std::swap(partial, next);
    }
    offbeat::copy(static_cast<std::byte*>(destination) + offset, partial, length * width);
  }
}

}  // namespace offbeat
