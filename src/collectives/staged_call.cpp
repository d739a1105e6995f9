// SPDX-License-Identifier: BSD-3-Clause
#include "collectives/staged_call.hpp"

#include <algorithm>

namespace offbeat {

void StagedCall::stage_vectors(Call& call, bool may_stay, bool apart) {
  auto* const input = const_cast<std::byte*>(call.input.data);
  std::byte* const output = call.output.data;
  const std::size_t given = input != nullptr ? call.input.bytes() : 0;
  const std::size_t taken = output != nullptr ? call.output.bytes() : 0;
  if (given > 0) input_ = {DeviceMemory::at(input), input, given};
  if (taken > 0) output_ = {DeviceMemory::at(output), output, taken};

  const bool overlap = given > 0 && taken > 0 && input < output + taken && output < input + given;
  // Vectors that overlap stay both, or neither does.
  const std::size_t both = overlap ? std::max(given, taken) : 0;
  const auto stays = [&](const StagedVector& part) {
    return may_stay && std::max(part.bytes, both) >= DeviceCopies::shortest_in_parts;
  };
  if (input_.memory && stays(input_)) {
    leave_on_device(input_);
  } else if (input_.memory && !(overlap && !apart && output_.memory)) {
    input_.host_copy = separate_input_.emplace(input_.memory, given).data();
  }
  if (output_.memory && stays(output_)) {
    leave_on_device(output_);
  } else if (output_.memory && overlap && !apart) {
    std::byte* const begin = std::min(input, output);
    memory_.emplace(output_.memory,
                    static_cast<std::size_t>(std::max(input + given, output + taken) - begin));
    input_.host_copy = memory_->data() + (input - begin);
    output_.host_copy = memory_->data() + (output - begin);
  } else if (output_.memory) {
    output_.host_copy = memory_.emplace(output_.memory, taken).data();
  }
  if (input_.is_staged()) call.input.data = input_.host_copy;
  if (output_.is_staged()) call.output.data = output_.host_copy;
  // The root of a broadcast only gives, so nothing is copied back to its device.
  if (call.collective == Collective::bcast && given > 0) output_.host_copy = nullptr;
}

}  // namespace offbeat
