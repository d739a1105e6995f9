// SPDX-License-Identifier: BSD-3-Clause
// Memory of a GPU that a program under a GPU-aware MPI passes to a collective.
//
// No CPU may read it. Its driver copies it from and to host memory. offbeat uses only a driver that the
// process has loaded by itself. Without a driver every address is in host memory, because nobody else can
// make device memory. A driver may come late, and privately (RTLD_LOCAL), as it does under PyTorch.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>

namespace offbeat {

class DeviceDriver;

// Says whether an address is on a device, and on which one.
class DeviceMemory {
 public:
  // Host memory. Memory that the driver manages or has registered counts as host memory, because the CPU can
  // read it.
  DeviceMemory() = default;
  // Finds out what is at this address. Call only if devices::may_have_memory().
  [[nodiscard]] static DeviceMemory at(const void* address);

  [[nodiscard]] explicit operator bool() const { return driver_ != nullptr; }
  // Copy from and to the device. They are complete on return. Both throw CommunicationError.
  void read(void* to, const void* from, std::size_t bytes) const;
  void write(void* to, const void* from, std::size_t bytes) const;

  void* context = nullptr;  // CUDA: of the allocation; null: the primary one of the device
  int device = 0;

 private:
  const DeviceDriver* driver_ = nullptr;  // null: host memory
};

// The functions of a driver that offbeat calls. offbeat keeps a driver once it has found it.
class DeviceDriver {
 public:
  // Looks up the functions. Returns false if this library is no such driver.
  [[nodiscard]] virtual bool load(void* library) = 0;
  // Returns true if the address is in device memory; `found` then holds its context and device. A driver that
  // does not answer has no memory: it was never initialised, or it has failed and the program with it.
  [[nodiscard]] virtual bool owns(const void* address, DeviceMemory& found) const = 0;
  virtual void read(const DeviceMemory& at, void* to, const void* from, std::size_t bytes) const = 0;
  virtual void write(const DeviceMemory& at, void* to, const void* from, std::size_t bytes) const = 0;

 protected:
  ~DeviceDriver() = default;
};

namespace devices {

// Looks for drivers from now on. Without this call all memory is host memory.
void look_for_drivers();

// The number of libraries that the process has ever loaded, and that number when offbeat last looked through
// them. The dynamic linker owns the first one.
struct Libraries {
  std::atomic<const std::uint64_t*> loaded;
  std::atomic<std::uint64_t> seen;
};
extern constinit Libraries libraries;
[[nodiscard]] bool look_through_libraries();

// Whether there may be device memory. Costs three loads and a comparison while there is no driver.
[[nodiscard]] inline bool may_have_memory() {
  const std::uint64_t now =
      __atomic_load_n(libraries.loaded.load(std::memory_order_relaxed), __ATOMIC_RELAXED);
  if (now == libraries.seen.load(std::memory_order_relaxed)) [[likely]]
    return false;
  return look_through_libraries();
}

// Whether the process has loaded the library of Level Zero. Only the context that allocated memory of Level
// Zero knows it, so offbeat cannot ask whether an address is there.
extern constinit std::atomic<bool> is_level_zero_found;
[[nodiscard]] inline bool has_level_zero() {
  static_cast<void>(may_have_memory());
  return is_level_zero_found.load(std::memory_order_relaxed);
}

}  // namespace devices
}  // namespace offbeat
