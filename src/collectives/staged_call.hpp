// SPDX-License-Identifier: BSD-3-Clause
// A call whose vectors are in device memory, in host memory.
#pragma once

#include <cstddef>
#include <optional>

#include "base/pool.hpp"
#include "collectives/call.hpp"
#include "node/device_memory.hpp"

namespace offbeat {

// For calls whose vectors have no gaps. Those of others are packed.
//
// Where the memory of a rank is decides nothing: MPI lets one rank pass device memory and another one host
// memory. The algorithm sees host memory on all of them.
class StagedCall {
 public:
  // Gives the call host memory for each vector that is on a device.
  void take(Call& call);
  // Before the collective, and after it. Both throw CommunicationError.
  void fetch_input() const { input_.memory ? input_.fetch() : void(); }
  void deliver_output() const { output_.memory ? output_.deliver() : void(); }

 private:
  struct Part {
    DeviceMemory memory;
    std::byte* on_device = nullptr;
    std::byte* in_host = nullptr;
    std::size_t bytes = 0;

    void fetch() const { memory.read(in_host, on_device, bytes); }
    void deliver() const { memory.write(on_device, in_host, bytes); }
  };

  Part input_;
  Part output_;
  std::optional<pool::Block> memory_;      // of the output, and of an input in it
  std::optional<pool::Block> own_memory_;  // of an input that is elsewhere
};

}  // namespace offbeat
