// SPDX-License-Identifier: BSD-3-Clause
#include "transport/transport.hpp"

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <utility>

#include "base/block_on_stack.hpp"
#include "base/copy.hpp"
#include "base/own_floating_point.hpp"

namespace offbeat {
namespace {

void copy(void* to, const void* from, std::size_t bytes, bool past_cache, bool source_is_stable = false) {
  if (to == from) return;
  if (past_cache) {
    copy_past_cache(to, from, bytes);
  } else if (source_is_stable) {
    copy_stable_source(to, from, bytes);
  } else {
    offbeat::copy(to, from, bytes);
  }
}

}  // namespace

double Transport::now() const {
  const OwnFloatingPoint own;
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

void Computation::perform() const {
  if (destination.data == nullptr) return;
  if (operand_count == 1) {
    if (to_shared) {
      copy_to_shared(destination.data, operands[0], destination.bytes());
    } else {
      copy(destination.data, operands[0], destination.bytes(), past_cache, source_is_stable);
    }
    return;
  }
  if (left_operands == 0 && second_destination.data == nullptr) {
    (*reduction)(destination.data, operands.data(), operand_count, destination.count);
    return;
  }
  // The loop goes block by block, so that partial results and the source of the copy stay in a first-level
  // cache.
  constexpr std::size_t block_bytes = 8192;
  // An element may be a user's object of any length.
  BlockOnStack block_of_partial(std::min(destination.bytes(), std::max(block_bytes, destination.width)));
  std::byte* const partial = block_of_partial.data();
  const std::size_t block = std::max<std::size_t>(1, block_bytes / destination.width);
  for (std::size_t first = 0; first < destination.count; first += block) {
    const Vector part = destination.slice(first, std::min(block, destination.count - first));
    const auto at_block = [&](std::size_t k) {
      return static_cast<const std::byte*>(operands[k]) + first * destination.width;
    };
    const void* sum = at_block(0);
    for (std::size_t k = 1; k < operand_count; ++k) {
      void* to = k + 1 == operand_count ? part.data : partial;
      const void* pair[2] = {sum, at_block(k)};
      if ((left_operands >> k & 1) != 0) std::swap(pair[0], pair[1]);
      (*reduction)(to, pair, 2, part.count);
      sum = to;
    }
    if (second_destination.data != nullptr)
      copy(second_destination.data + first * second_destination.width, part.data, part.bytes(), past_cache);
  }
}

}  // namespace offbeat
