// SPDX-License-Identifier: BSD-3-Clause
#include "node/device_driver.hpp"

namespace offbeat {
namespace {

// The driver interface of HIP. Its copies need no context. The struct that hipPointerGetAttributes fills has
// changed between versions; hipPointerGetAttribute has not.
class Hip final : public DeviceDriver {
 public:
  bool load_functions(void* library) override {
    int (*version_of)(int*) = nullptr;
    int version = 0;
    if (!find(library, "hipPointerGetAttribute", get_attribute_) || !find(library, "hipMemcpy", copy_) ||
        !find(library, "hipRuntimeGetVersion", version_of) || version_of(&version) != 0)
      return false;
    constexpr int version_6 = 60'000'000;
    device_memory_ = version >= version_6 ? 2 : 1;
    return find(library, "hipPeekAtLastError", last_error_) &&
           find(library, "hipGetLastError", clear_last_error_) &&
           find(library, "hipGetDevice", get_device_) && find(library, "hipSetDevice", set_device_) &&
           find(library, "hipMemcpyAsync", begin_copy_) && find(library, "hipStreamCreate", create_stream_) &&
           find(library, "hipStreamSynchronize", synchronise_) &&
           find(library, "hipEventCreateWithFlags", create_event_) &&
           find(library, "hipEventRecord", record_) && find(library, "hipEventQuery", query_) &&
           find(library, "hipHostRegister", register_) && find(library, "hipHostUnregister", unregister_);
  }

  // Returns true if the address is the driver's own. Otherwise the driver fails and keeps the error for
  // hipGetLastError. That error is cleared, because the program must not find an error there that it has not
  // made.
  bool find_device_memory(const void* address, DeviceMemory& found) const override {
    const SavedLastError scope(*this);
    return is_device_memory(const_cast<void*>(address), found);
  }

  void read(const DeviceMemory&, void* to, const void* from, std::size_t bytes) const override {
    enum : int { device_to_host = 2 };
    require_driver(copy_(to, from, bytes, device_to_host), "hipMemcpy");
  }
  void write(const DeviceMemory&, void* to, const void* from, std::size_t bytes) const override {
    enum : int { host_to_device = 1 };
    require_driver(copy_(to, from, bytes, host_to_device), "hipMemcpy");
  }

  std::uint64_t context_id(const DeviceMemory& at) const override {
    return static_cast<std::uint64_t>(at.device);
  }
  void* make_stream(const DeviceMemory& at) const override {
    const OnDevice scope(*this, at);
    void* stream = nullptr;
    require_driver(create_stream_(&stream), "hipStreamCreate");
    return stream;
  }
  void* make_event(const DeviceMemory& at) const override {
    enum : unsigned { without_time = 2 };
    const OnDevice scope(*this, at);
    void* event = nullptr;
    require_driver(create_event_(&event, without_time), "hipEventCreateWithFlags");
    return event;
  }
  void begin_copy(CopyKind way, const DeviceMemory& at, void* to, const void* from, std::size_t bytes,
                  void* stream, void* event) const override {
    enum : int { host_to_device = 1, device_to_host = 2, device_to_device = 3 };
    const OnDevice scope(*this, at);
    const int kind = way == CopyKind::read    ? device_to_host
                     : way == CopyKind::write ? host_to_device
                                              : device_to_device;
    require_driver(begin_copy_(to, from, bytes, kind, stream), "hipMemcpyAsync");
    const int code = record_(event, stream);
    if (code != 0) synchronise_(stream);  // nobody waits for the copy, and its memory may be freed
    require_driver(code, "hipEventRecord");
  }
  bool event_is_complete(void* event) const override {
    constexpr int not_ready = 600;
    const SavedLastError scope(*this);
    const int code = query_(event);
    if (code == not_ready) return false;
    require_driver(code, "hipEventQuery");
    return true;
  }

  bool register_memory(const DeviceMemory& at, void* memory, std::size_t bytes) const noexcept override {
    enum : unsigned { for_all_contexts = 1 };
    const SavedLastError scope(*this);
    try {
      const OnDevice on_device(*this, at);
      return register_(memory, bytes, for_all_contexts) == 0;
    } catch (const CommunicationError&) {
      return false;
    }
  }
  void forget_memory(void* memory) const noexcept override {
    const SavedLastError scope(*this);
    unregister_(memory);
  }

 private:
  // Clears an error at the end of the scope, unless there was one before: that is the program's.
  class SavedLastError {
   public:
    explicit SavedLastError(const Hip& hip) : hip_(hip), has_error_(hip.last_error_() != 0) {}
    ~SavedLastError() {
      if (!has_error_ && hip_.last_error_() != 0) hip_.clear_last_error_();
    }
    SavedLastError(const SavedLastError&) = delete;
    SavedLastError& operator=(const SavedLastError&) = delete;

   private:
    const Hip& hip_;
    const bool has_error_;
  };

  // Makes the device of the memory the present one of this thread.
  class OnDevice {
   public:
    OnDevice(const Hip& hip, const DeviceMemory& at) : hip_(hip) {
      require_driver(hip.get_device_(&before_), "hipGetDevice");
      if (at.device == before_) return;
      require_driver(hip.set_device_(at.device), "hipSetDevice");
      is_changed_ = true;
    }
    ~OnDevice() {
      if (is_changed_) hip_.set_device_(before_);
    }
    OnDevice(const OnDevice&) = delete;
    OnDevice& operator=(const OnDevice&) = delete;

   private:
    const Hip& hip_;
    int before_ = 0;
    bool is_changed_ = false;
  };

  [[nodiscard]] bool is_device_memory(void* address, DeviceMemory& found) const {
    enum : int { memory_type = 2, is_managed = 8, device_ordinal = 9 };
    unsigned type = 0;
    unsigned managed = 0;
    if (get_attribute_(&type, memory_type, address) != 0 || type != device_memory_) return false;
    if (get_attribute_(&managed, is_managed, address) == 0 && managed != 0) return false;
    if (get_attribute_(&found.device, device_ordinal, address) != 0) found.device = 0;
    return true;
  }

  unsigned device_memory_ = 0;  // hipMemoryTypeDevice, whose value differs between versions
  int (*last_error_)() = nullptr;
  int (*clear_last_error_)() = nullptr;
  int (*get_attribute_)(void* value, int attribute, void* address) = nullptr;
  int (*copy_)(void* to, const void* from, std::size_t bytes, int kind) = nullptr;
  int (*get_device_)(int* device) = nullptr;
  int (*set_device_)(int device) = nullptr;
  int (*begin_copy_)(void* to, const void* from, std::size_t bytes, int kind, void* stream) = nullptr;
  int (*create_stream_)(void** stream) = nullptr;
  int (*synchronise_)(void* stream) = nullptr;
  int (*create_event_)(void** event, unsigned flags) = nullptr;
  int (*record_)(void* event, void* stream) = nullptr;
  int (*query_)(void* event) = nullptr;
  int (*register_)(void* memory, std::size_t bytes, unsigned flags) = nullptr;
  int (*unregister_)(void* memory) = nullptr;
};

constinit Hip hip;

}  // namespace

DeviceDriver& hip_driver() { return hip; }

}  // namespace offbeat
