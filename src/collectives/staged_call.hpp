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
  void stage_vectors(Call& call, bool may_stay = false, bool apart = false);
  // Returns true if the input is in host memory that is not the output's.
  [[nodiscard]] bool has_input_apart() const { return separate_input_.has_value(); }

  // Call fetch_input() before a collective that runs at once, and deliver_output() after it. An operation
  // begins with begin_fetch(), and calls begin_delivery() by itself. All throw CommunicationError.
  void fetch_input() const { input_.is_staged() ? input_.copy_to_host() : void(); }
  void deliver_output() const { output_.is_staged() ? output_.copy_to_device() : void(); }
  void begin_fetch() {
    if (input_.is_staged())
      copies_.begin_read(input_.memory, input_.host_copy, input_.on_device, input_.bytes);
  }
  void begin_delivery() const override {
    if (output_.is_staged())
      copies_.begin_write(output_.memory, output_.on_device, output_.host_copy, output_.bytes);
  }

  // Returns this, or null if nothing is on a device.
  [[nodiscard]] const StandInCopies* stand_ins() const {
    return input_.memory || output_.memory ? this : nullptr;
  }
  [[nodiscard]] bool copy(std::byte*, const std::byte*, std::size_t) const override { return false; }
  [[nodiscard]] DeviceCopies* device_copies() const override { return &copies_; }

 private:
  struct StagedVector {
    DeviceMemory memory;
    std::byte* on_device = nullptr;
    std::size_t bytes = 0;
    std::byte* host_copy = nullptr;  // null if the vector stays

    [[nodiscard]] bool is_staged() const { return memory && host_copy != nullptr; }
    void copy_to_host() const { memory.read(host_copy, on_device, bytes); }
    void copy_to_device() const { memory.write(on_device, host_copy, bytes); }
  };
  void leave_on_device(const StagedVector& part) { copies_.use(part.memory, part.on_device, part.bytes); }

  StagedVector input_;
  StagedVector output_;
  std::optional<PinnedBlock> memory_;          // for the output, and for an input inside it
  std::optional<PinnedBlock> separate_input_;  // for an input elsewhere
  mutable DeviceCopies copies_;                // comes last: it waits for copies of this memory
};

}  // namespace offbeat
