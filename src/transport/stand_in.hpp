// SPDX-License-Identifier: BSD-3-Clause
// A stand-in is an address for a vector that has no memory: the bytes of elements with gaps, which are packed
// or unpacked only as they are copied.
//
// A long vector then takes no memory, and is packed right into a window of the board. An algorithm gets a
// stand-in as the vector's address. It may slice the vector, and copy from and to it with Endpoint::copy and
// Endpoint::put. Anything else that reads or writes at a stand-in faults.
#pragma once

#include <cstddef>
#include <cstdint>

namespace offbeat {

// The addresses of stand-ins. No user process has memory there: bits 48 to 63 of an address of x86-64 are
// equal, and bit 55 of one of AArch64 is clear.
namespace stand_in {

inline constexpr std::uintptr_t mark = std::uintptr_t{1} << 62 | std::uintptr_t{1} << 55;
inline constexpr std::uintptr_t kind_bits = ~((std::uintptr_t{1} << 54) - 1);

// Returns the address of the first byte of vector 0 or 1.
[[nodiscard]] inline std::byte* address(int vector) {
  return reinterpret_cast<std::byte*>(mark | static_cast<std::uintptr_t>(vector) << 54);
}
[[nodiscard]] inline bool belongs_to(int vector, const void* address) {
  return (reinterpret_cast<std::uintptr_t>(address) & kind_bits) ==
         reinterpret_cast<std::uintptr_t>(stand_in::address(vector));
}

}  // namespace stand_in

class DeviceCopies;

// Makes copies for a transport whose algorithm has stand-ins, or vectors on a device.
class StandInCopies {
 public:
  StandInCopies() = default;
  StandInCopies(const StandInCopies&) = delete;
  StandInCopies& operator=(const StandInCopies&) = delete;
  // Copies bytes. Returns false if neither address is a stand-in.
  [[nodiscard]] virtual bool copy(std::byte* to, const std::byte* from, std::size_t bytes) const = 0;
  // Returns the DeviceCopies for vectors in device memory, or null if no vector is there.
  [[nodiscard]] virtual DeviceCopies* device_copies() const { return nullptr; }
  // Begins to copy results to the device. An operation calls it when its task is over. Calls no host.
  virtual void begin_delivery() const {}

 protected:
  ~StandInCopies() = default;
};

}  // namespace offbeat
