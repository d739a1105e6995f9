// SPDX-License-Identifier: BSD-3-Clause
// StagedCall provides host memory for a call whose vectors are in device memory.
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
// Decisions never depend on where a rank's memory is, because MPI lets one rank pass device memory and
// another one host memory. The algorithm sees host memory on all ranks.
class StagedCall {
 public:
  // Replaces each vector of `call` that is on a device by host memory.
  void take(Call& call);
  // Call fetch_input() before the collective and deliver_output() after it. Both throw CommunicationError.
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
  std::optional<pool::Block> memory_;      // for the output, and for an input inside it
  std::optional<pool::Block> own_memory_;  // for an input elsewhere
};

}  // namespace offbeat
