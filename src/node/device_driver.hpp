// SPDX-License-Identifier: BSD-3-Clause
// The drivers of GPUs whose memory offbeat can copy.
#pragma once

#include <dlfcn.h>

#include <cstddef>
#include <cstdint>
#include <string>

#include "base/error.hpp"
#include "node/device_memory.hpp"

namespace offbeat {

// The functions of a driver that offbeat calls. offbeat keeps a driver once it has found it.
class DeviceDriver {
 public:
  // Looks up the functions. Returns false if `library` is not such a driver.
  [[nodiscard]] virtual bool load_functions(void* library) = 0;
  // Returns true if the address is in device memory, and sets its context and device in `found`. If the
  // driver does not answer, it owns no memory: it was never initialised, or it has failed and so has the
  // program.
  [[nodiscard]] virtual bool find_device_memory(const void* address, DeviceMemory& found) const = 0;
  virtual void read(const DeviceMemory& at, void* to, const void* from, std::size_t bytes) const = 0;
  virtual void write(const DeviceMemory& at, void* to, const void* from, std::size_t bytes) const = 0;

  // A driver has streams, each of which makes its copies in order, and events, which happen when all copies
  // before them are complete. Streams and events belong to the device, and to the context, of `at`. Two
  // memories with one number can share them. These functions throw CommunicationError.
  [[nodiscard]] virtual std::uint64_t context_id(const DeviceMemory& at) const = 0;
  [[nodiscard]] virtual void* make_stream(const DeviceMemory& at) const = 0;
  [[nodiscard]] virtual void* make_event(const DeviceMemory& at) const = 0;
  enum class CopyKind { read, write, move };
  virtual void begin_copy(CopyKind way, const DeviceMemory& at, void* to, const void* from, std::size_t bytes,
                          void* stream, void* event) const = 0;
  [[nodiscard]] virtual bool event_is_complete(void* event) const = 0;

  // Returns false if the driver refuses.
  [[nodiscard]] virtual bool register_memory(const DeviceMemory& at, void* memory,
                                             std::size_t bytes) const noexcept = 0;
  virtual void forget_memory(void* memory) const noexcept = 0;

 protected:
  ~DeviceDriver() = default;
};

// These return drivers that may not be loaded yet: first call load_functions().
[[nodiscard]] DeviceDriver& cuda_driver();
[[nodiscard]] DeviceDriver& hip_driver();

// For the drivers themselves: sets `function` to the symbol `name` of the library, or to null. Returns false
// if there is none.
template <class Function>
bool find(void* library, const char* name, Function*& function) {
  function = reinterpret_cast<Function*>(dlsym(library, name));
  return function != nullptr;
}

// Throws CommunicationError if `code`, the result of a driver's `function`, is an error.
inline void require_driver(int code, const char* function) {
  if (code == 0) return;
  throw CommunicationError("device memory cannot be copied: " + std::string(function) + " fails with error " +
                           std::to_string(code));
}

}  // namespace offbeat
