// SPDX-License-Identifier: BSD-3-Clause
#include "transport/transport.hpp"

#include <cstring>

namespace offbeat {

void Computation::perform() const {
  if (destination.data == nullptr) return;
  if (reduction != nullptr) {
    (*reduction)(destination.data, operands.data(), operand_count, destination.count);
  } else if (operands[0] != destination.data) {
    std::memcpy(destination.data, operands[0], destination.bytes());
  }
}

}  // namespace offbeat
