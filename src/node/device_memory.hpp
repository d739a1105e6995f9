// SPDX-License-Identifier: BSD-3-Clause
// Finds and copies GPU memory that a program under a GPU-aware MPI passes to a collective.
//
// No CPU may read this memory; only its driver can copy it from and to host memory. offbeat uses only a
// driver that the process has loaded by itself. Without a driver every address is in host memory, because
// nothing else can make device memory. A driver may be loaded late, and privately (RTLD_LOCAL), as under
// PyTorch.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>

namespace offbeat {

class DeviceDriver;
class DeviceQueue;

// A copy from or to a device that was begun.
class DeviceCopy {
 public:
  DeviceCopy() = default;  // a copy that is over
  // Returns true if the copy is complete. Throws CommunicationError. After true, this costs nothing.
  [[nodiscard]] bool is_over();
  // Returns when the copy is complete or has failed.
  void wait() noexcept;

 private:
  friend class DeviceQueue;
  DeviceCopy(DeviceQueue& queue, void* event) : queue_(&queue), event_(event) {}

  DeviceQueue* queue_ = nullptr;  // null: over
  void* event_ = nullptr;
};

// Says whether an address is in device memory, and on which device.
class DeviceMemory {
 public:
  // Makes a value for host memory. Memory that the driver manages or has registered counts as host memory,
  // because the CPU can read it.
  DeviceMemory() = default;
  // Returns what kind of memory is at `address`. Call this only if devices::may_have_memory().
  [[nodiscard]] static DeviceMemory at(const void* address);

  [[nodiscard]] explicit operator bool() const { return driver_ != nullptr; }
  // read() copies from the device and write() to it. The copy is complete on return. Both throw
  // CommunicationError.
  void read(void* to, const void* from, std::size_t bytes) const;
  void write(void* to, const void* from, std::size_t bytes) const;
  // begin_read() and begin_write() begin such copies. They use two streams of offbeat: one
  // for reads, one for all other copies. Each stream copies in the order of the calls. If `after_writes`, a
  // read goes to the stream of the other copies. If host memory is not registered, the driver may copy before
  // it returns.
  [[nodiscard]] DeviceCopy begin_read(void* to, const void* from, std::size_t bytes,
                                      bool after_writes = false) const;
  [[nodiscard]] DeviceCopy begin_write(void* to, const void* from, std::size_t bytes) const;
  // Begins a copy from this memory to other memory of the same device.
  [[nodiscard]] DeviceCopy begin_move(void* to, const void* from, std::size_t bytes) const;
  [[nodiscard]] bool has_driver_of(const DeviceMemory& other) const { return driver_ == other.driver_; }
  // Returns true if begin_move() can copy from this memory to the other one.
  [[nodiscard]] bool can_copy_to(const DeviceMemory& other) const {
    return driver_ == other.driver_ && context == other.context && device == other.device;
  }

  void* context = nullptr;  // CUDA context of the allocation; null: the primary one
  int device = 0;

 private:
  friend class HostRegistration;
  const DeviceDriver* driver_ = nullptr;  // null: host memory
};

// Host memory that a driver knows. The driver then copies from and to it directly, while the program goes on.
class HostRegistration {
 public:
  // A driver may refuse. Its copies are then slower, but just as right.
  HostRegistration(const DeviceMemory& driver_of, void* memory, std::size_t bytes) noexcept;
  HostRegistration(const HostRegistration&) = delete;
  HostRegistration& operator=(const HostRegistration&) = delete;
  ~HostRegistration();
  [[nodiscard]] explicit operator bool() const { return driver_ != nullptr; }

 private:
  const DeviceDriver* driver_ = nullptr;  // null: refused
  void* const memory_;
};

namespace devices {

// Starts looking for drivers. Without this call all memory counts as host memory.
void look_for_drivers();

// Returns true if this machine has a GPU whose memory offbeat can copy, or a driver of one is loaded. A
// program may load the driver late.
[[nodiscard]] bool may_have_driver();

// `loaded` points to the number of libraries that the process has ever loaded; it belongs to the dynamic
// linker. `seen` is that number at offbeat's last look through the libraries.
struct Libraries {
  std::atomic<const std::uint64_t*> loaded;
  std::atomic<std::uint64_t> seen;
};
extern constinit Libraries libraries;
[[nodiscard]] bool look_through_libraries();

// Returns true if there may be device memory. If no driver is loaded, this costs three loads and a
// comparison.
[[nodiscard]] inline bool may_have_memory() {
  const std::uint64_t now =
      __atomic_load_n(libraries.loaded.load(std::memory_order_relaxed), __ATOMIC_RELAXED);
  if (now == libraries.seen.load(std::memory_order_relaxed)) [[likely]]
    return false;
  return look_through_libraries();
}

// True if the process has loaded the library of Level Zero. offbeat cannot ask it whether an address is in
// its memory, because only the context that allocated the memory knows.
extern constinit std::atomic<bool> is_level_zero_found;
[[nodiscard]] inline bool has_level_zero() {
  static_cast<void>(may_have_memory());
  return is_level_zero_found.load(std::memory_order_relaxed);
}

}  // namespace devices
}  // namespace offbeat
