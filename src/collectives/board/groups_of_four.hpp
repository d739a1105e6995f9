// SPDX-License-Identifier: BSD-3-Clause
// The order in which more than 7 ranks combine short vectors, and 5 to 7 those of which all together have
// more than 8 KiB: groups of four ranks, then the sums of the groups. It is that of the tree (tree_form.hpp)
// and of the butterfly (immediate_butterfly.hpp).
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>

#include "collectives/call.hpp"
#include "node/board_shape.hpp"

namespace offbeat {

// Up to this many ranks combine vectors in rank order, if all together have at most 2 * inline_bytes.
inline constexpr int most_ranks_in_rank_order = 7;

[[nodiscard]] constexpr std::size_t aligned(std::size_t bytes) {
  constexpr std::size_t alignment = alignof(std::max_align_t);
  return (bytes + alignment - 1) / alignment * alignment;
}

// Combines the vectors of at most 16 ranks. `room` has aligned(output.bytes()) bytes for each group.
inline void combine_in_groups(const Reduction& op, const Vector& output, const void* const* operands,
                              int ranks, std::byte* room) {
  const auto all = static_cast<std::size_t>(ranks);
  std::array<const void*, BoardShape::most_ranks_without_tree / 4> sums;
  std::size_t groups = 0;
  for (std::size_t first = 0; first < all; first += 4, room += aligned(output.bytes())) {
    const std::size_t members = std::min<std::size_t>(4, all - first);
    if (members > 1) op(room, operands + first, members, output.count);
    sums[groups++] = members > 1 ? room : operands[first];
  }
  op(output.data, sums.data(), groups, output.count);
}

}  // namespace offbeat
