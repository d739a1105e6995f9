// SPDX-License-Identifier: BSD-3-Clause
// StagedCall serves a call whose vectors are in device memory.
#pragma once

#include <cstddef>
#include <optional>

#include "collectives/call.hpp"
#include "node/device_copies.hpp"
#include "node/pinned_block.hpp"
#include "transport/stand_in.hpp"

namespace offbeat {

// Replaces the device vectors of a call by host memory, or leaves long ones to the algorithm. The vectors
// have no gaps; vectors with gaps are packed instead (side.hpp).
//
// Decisions never depend on where a rank's memory is, because MPI lets one rank pass device memory and
// another one host memory. The same algorithm runs on all ranks.
class StagedCall final : public StandInCopies {
 public:
  // Replaces each vector of `call` that is on a device by host memory. If `may_stay`, a long vector stays: an
  // algorithm runs that only names it in computations. If `apart`, the input gets memory of its own even if
  // it is a part of the output.
  void take(Call& call, bool may_stay = false, bool apart = false);
  // Returns true if the input is in host memory that is not the output's.
  [[nodiscard]] bool has_input_apart() const { return own_memory_.has_value(); }

  // Call fetch_input() before a collective that runs at once, and deliver_output() after it. An operation
  // begins with begin_fetch(), and calls begin_delivery() by itself. All throw CommunicationError.
  void fetch_input() const { input_.is_staged() ? input_.fetch() : void(); }
  void deliver_output() const { output_.is_staged() ? output_.deliver() : void(); }
  void begin_fetch() {
    if (input_.is_staged()) copies_.begin_read(input_.memory, input_.in_host, input_.on_device, input_.bytes);
  }
  void begin_delivery() const override {
    if (output_.is_staged())
      copies_.begin_write(output_.memory, output_.on_device, output_.in_host, output_.bytes);
  }

  // Returns this, or null if nothing is on a device.
  [[nodiscard]] const StandInCopies* stand_ins() const {
    return input_.memory || output_.memory ? this : nullptr;
  }
  [[nodiscard]] bool copy(std::byte*, const std::byte*, std::size_t) const override { return false; }
  [[nodiscard]] DeviceCopies* on_device() const override { return &copies_; }

 private:
  struct Part {
    DeviceMemory memory;
    std::byte* on_device = nullptr;
    std::size_t bytes = 0;
    std::byte* in_host = nullptr;  // null if the vector stays

    [[nodiscard]] bool is_staged() const { return memory && in_host != nullptr; }
    void fetch() const { memory.read(in_host, on_device, bytes); }
    void deliver() const { memory.write(on_device, in_host, bytes); }
  };
  void leave(const Part& part) { copies_.use(part.memory, part.on_device, part.bytes); }

  Part input_;
  Part output_;
  std::optional<PinnedBlock> memory_;      // for the output, and for an input inside it
  std::optional<PinnedBlock> own_memory_;  // for an input elsewhere
  mutable DeviceCopies copies_;            // comes last: it waits for copies of this memory
};

}  // namespace offbeat
