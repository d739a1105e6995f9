// SPDX-License-Identifier: BSD-3-Clause
// Memory of a GPU that a program under a GPU-aware MPI passes to a collective.
//
// No CPU may read it. Its driver copies it from and to host memory. Only a driver that the process has loaded
// by itself is used, and nobody but a driver can make device memory: without one every address is in host
// memory. A driver may come late, and privately (RTLD_LOCAL), as it does under PyTorch.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>

namespace offbeat {

class DeviceDriver;

// Where an address is.
class DeviceMemory {
 public:
  // Host memory. So is memory that the driver manages or has registered, because the CPU can read it.
  DeviceMemory() = default;
  // What is at this address. Ask only if devices::may_have_memory().
  [[nodiscard]] static DeviceMemory at(const void* address);

  [[nodiscard]] explicit operator bool() const { return driver_ != nullptr; }
  // Copies from and to the device. Complete on return. Both throw CommunicationError.
  void read(void* to, const void* from, std::size_t bytes) const;
  void write(void* to, const void* from, std::size_t bytes) const;

  void* context = nullptr;  // CUDA: of the allocation; null: the primary one of the device
  int device = 0;

 private:
  const DeviceDriver* driver_ = nullptr;  // null: host memory
};

// The functions of a driver that offbeat calls. A driver stays when it has been found.
class DeviceDriver {
 public:
  // Looks up the functions. False: this library is no such driver.
  [[nodiscard]] virtual bool load(void* library) = 0;
  // True: the address is in device memory, of which `found` holds the context and the device. A driver that
  // does not answer has no memory: it was never initialised, or has failed, and so has the program.
  [[nodiscard]] virtual bool owns(const void* address, DeviceMemory& found) const = 0;
  virtual void read(const DeviceMemory& at, void* to, const void* from, std::size_t bytes) const = 0;
  virtual void write(const DeviceMemory& at, void* to, const void* from, std::size_t bytes) const = 0;

 protected:
  ~DeviceDriver() = default;
};

namespace devices {

// From now on drivers are looked for. Without this call all memory is host memory.
void look_for_drivers();

// How many libraries the process has ever loaded, and had when they were looked through. The first number
// belongs to the dynamic linker.
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

// Whether the process has the loader of Level Zero, whose memory is known only to the context that has
// allocated it. offbeat cannot ask for that.
extern constinit std::atomic<bool> is_level_zero_found;
[[nodiscard]] inline bool has_level_zero() {
  static_cast<void>(may_have_memory());
  return is_level_zero_found.load(std::memory_order_relaxed);
}

}  // namespace devices
}  // namespace offbeat
