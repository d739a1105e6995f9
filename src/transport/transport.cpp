// SPDX-License-Identifier: BSD-3-Clause
#include "transport/transport.hpp"

#include <algorithm>

#include "base/copy.hpp"

namespace offbeat {
namespace {

void copy(void* to, const void* from, std::size_t bytes, bool past_cache) {
  if (to == from) return;
  if (past_cache) {
    copy_past_cache(to, from, bytes);
  } else {
    offbeat::copy(to, from, bytes);
  }
}

}  // namespace

void Computation::perform() const {
  if (destination.data == nullptr) return;
  if (reduction == nullptr) {
    copy(destination.data, operands[0], destination.bytes(), past_cache);
    return;
  }
  // Block by block, so that the second destination is written from a first-level cache.
  constexpr std::size_t block_bytes = 2048;
  const std::size_t block = second.data == nullptr ? destination.count : block_bytes / destination.width + 1;
  std::array<const void*, most_operands> rest = operands;
  for (std::size_t first = 0; first < destination.count; first += block) {
    const Vector part = destination.slice(first, std::min(block, destination.count - first));
    (*reduction)(part.data, rest.data(), operand_count, part.count);
    for (std::size_t k = 0; k < operand_count; ++k)
      rest[k] = static_cast<const std::byte*>(rest[k]) + part.bytes();
    if (second.data != nullptr) copy(second.data + first * second.width, part.data, part.bytes(), past_cache);
  }
}

}  // namespace offbeat
