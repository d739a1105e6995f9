// SPDX-License-Identifier: BSD-3-Clause
// Host memory for a call whose vectors are in device memory.
#pragma once

#include <cstddef>
#include <optional>

#include "base/pool.hpp"
#include "collectives/call.hpp"
#include "node/device_memory.hpp"

namespace offbeat {

// Replaces the device vectors of a call by host memory. The vectors have no gaps; vectors with gaps are
// packed instead (side.hpp).
//
// Where a rank's memory is decides nothing, because MPI lets one rank pass device memory and another one host
// memory. The algorithm sees host memory on all ranks.
class StagedCall {
 public:
  // Replaces each vector of `call` that is on a device by host memory.
  void take(Call& call);
  // Call the first one before the collective and the second one after it. Both throw CommunicationError.
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
