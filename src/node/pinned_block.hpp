// SPDX-License-Identifier: BSD-3-Clause
// PinnedBlock is host memory for copies from and to a device.
#pragma once

#include <cstddef>

#include "node/device_memory.hpp"

namespace offbeat {

// A block that the driver knows (HostRegistration), so that copies go on while the program computes. It takes
// about a millisecond to make such memory known, so blocks are kept and used again. If the driver refuses,
// the block is memory like any other.
class PinnedBlock {
 public:
  // Returns a block of at least `bytes` bytes, at the beginning of a page. Throws std::bad_alloc.
  PinnedBlock(const DeviceMemory& driver_of, std::size_t bytes);
  PinnedBlock(PinnedBlock&& other) noexcept;
  PinnedBlock(const PinnedBlock&) = delete;
  PinnedBlock& operator=(const PinnedBlock&) = delete;
  PinnedBlock& operator=(PinnedBlock&&) = delete;
  ~PinnedBlock();
  [[nodiscard]] std::byte* data() const;

  struct Memory;

 private:
  Memory* memory_;
};

}  // namespace offbeat
