// SPDX-License-Identifier: BSD-3-Clause
// Combines any number of operands from left to right.
#pragma once

#include <array>
#include <cstddef>
#include <utility>

#include "base/task.hpp"
#include "transport/endpoint.hpp"

namespace offbeat {

// Computes `result` = operand_of(0) ... operand_of(operands - 1). operand_of(k) returns the data of operand
// k. `between` takes partial results and may be the first or the second operand. `result` may be any operand.
template <class OperandOf>
[[nodiscard]] Task combine_in_order(Endpoint net, const Reduction& op, Vector result, int operands,
                                    Vector between, OperandOf operand_of) {
  std::array<const void*, Computation::most_operands> at_hand{};
  std::size_t count = 0;
  for (int k = 0; k < operands; ++k) {
    if (count == at_hand.size()) {
      co_await net.reduce(op, between, at_hand, count);
      at_hand[0] = between.data;
      count = 1;
    }
    at_hand[count++] = operand_of(k);
  }
  co_await net.reduce(op, result, at_hand, count);
}

}  // namespace offbeat
