// SPDX-License-Identifier: BSD-3-Clause
#include "collectives/staged_call.hpp"

#include <algorithm>

namespace offbeat {

void StagedCall::take(Call& call) {
  auto* const input = const_cast<std::byte*>(call.input.data);
  std::byte* const output = call.output.data;
  const std::size_t given = input != nullptr ? call.input.bytes() : 0;
  const std::size_t taken = output != nullptr ? call.output.bytes() : 0;
  if (given > 0) input_ = {DeviceMemory::at(input), input, input, given};
  if (taken > 0) output_ = {DeviceMemory::at(output), output, output, taken};

  const bool is_in_place = given > 0 && taken > 0 && input < output + taken && output < input + given;
  if (is_in_place && output_.memory) {
    std::byte* const begin = std::min(input, output);
    memory_.emplace(static_cast<std::size_t>(std::max(input + given, output + taken) - begin));
    input_.in_host = memory_->data() + (input - begin);
    output_.in_host = memory_->data() + (output - begin);
  } else {
    if (output_.memory) output_.in_host = memory_.emplace(taken).data();
    if (input_.memory) input_.in_host = own_memory_.emplace(given).data();
  }
  call.input.data = input_.memory ? input_.in_host : call.input.data;
  call.output.data = output_.memory ? output_.in_host : call.output.data;
  // The root of a broadcast only gives, so nothing is copied back to its device.
  if (call.collective == Collective::bcast && given > 0) output_.memory = {};
}

}  // namespace offbeat
