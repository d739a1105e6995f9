// SPDX-License-Identifier: BSD-3-Clause
#include <array>

#include "node/device_driver.hpp"

namespace offbeat {
namespace {

// The driver interface of CUDA.
class Cuda final : public DeviceDriver {
 public:
  bool load_functions(void* library) override {
    return find(library, "cuPointerGetAttributes", get_attributes_) &&
           find(library, "cuCtxPushCurrent_v2", push_) && find(library, "cuCtxPopCurrent_v2", pop_) &&
           find(library, "cuDevicePrimaryCtxRetain", retain_primary_) &&
           find(library, "cuDevicePrimaryCtxRelease_v2", release_primary_) &&
           find(library, "cuMemcpyDtoHAsync_v2", to_host_) &&
           find(library, "cuMemcpyHtoDAsync_v2", to_device_) &&
           find(library, "cuStreamSynchronize", synchronise_) &&
           find(library, "cuMemcpyDtoDAsync_v2", within_device_) &&
           find(library, "cuStreamCreate", create_stream_) && find(library, "cuEventCreate", create_event_) &&
           find(library, "cuEventRecord", record_) && find(library, "cuEventQuery", query_) &&
           find(library, "cuMemHostRegister_v2", register_) &&
           find(library, "cuMemHostUnregister", unregister_) &&
           (find(library, "cuCtxGetId", get_id_) || get_id_ == nullptr);
  }

  // Asks for all attributes at once, because the function for a single attribute is slow in drivers from 580
  // on, and fails for host memory.
  bool find_device_memory(const void* address, DeviceMemory& found) const override {
    enum : int { context = 1, memory_type = 2, is_managed = 8, device_ordinal = 9 };
    enum : unsigned { device_memory = 2 };
    std::array<int, 4> attributes{memory_type, is_managed, device_ordinal, context};
    unsigned type = 0;
    unsigned managed = 0;
    std::array<void*, 4> values{&type, &managed, &found.device, &found.context};
    const int code = get_attributes_(static_cast<unsigned>(attributes.size()), attributes.data(),
                                     values.data(), reinterpret_cast<std::uintptr_t>(address));
    return code == 0 && type == device_memory && managed == 0;
  }

  void read(const DeviceMemory& at, void* to, const void* from, std::size_t bytes) const override {
    const InContext scope(*this, at);
    require_driver(to_host_(to, reinterpret_cast<std::uintptr_t>(from), bytes, stream_of_thread()),
                   "cuMemcpyDtoHAsync");
    require_driver(synchronise_(stream_of_thread()), "cuStreamSynchronize");
  }
  void write(const DeviceMemory& at, void* to, const void* from, std::size_t bytes) const override {
    const InContext scope(*this, at);
    require_driver(to_device_(reinterpret_cast<std::uintptr_t>(to), from, bytes, stream_of_thread()),
                   "cuMemcpyHtoDAsync");
    require_driver(synchronise_(stream_of_thread()), "cuStreamSynchronize");
  }

  // A program may reset a device. New contexts then get new numbers, but maybe old addresses. Drivers before
  // CUDA 12 have no numbers.
  std::uint64_t context_id(const DeviceMemory& at) const override {
    std::uint64_t number = reinterpret_cast<std::uintptr_t>(at.context);
    if (get_id_ == nullptr) return at.context != nullptr ? number : static_cast<std::uint64_t>(at.device);
    const InContext scope(*this, at);
    require_driver(get_id_(nullptr, &number), "cuCtxGetId");
    return number;
  }
  // Such a stream waits for the default stream, as the stream of a thread does.
  void* make_stream(const DeviceMemory& at) const override {
    enum : unsigned { default_flags = 0 };
    const InContext scope(*this, at);
    void* stream = nullptr;
    require_driver(create_stream_(&stream, default_flags), "cuStreamCreate");
    return stream;
  }
  void* make_event(const DeviceMemory& at) const override {
    enum : unsigned { without_time = 2 };
    const InContext scope(*this, at);
    void* event = nullptr;
    require_driver(create_event_(&event, without_time), "cuEventCreate");
    return event;
  }
  void begin_copy(CopyKind way, const DeviceMemory& at, void* to, const void* from, std::size_t bytes,
                  void* stream, void* event) const override {
    const InContext scope(*this, at);
    const auto address = [](const void* memory) { return reinterpret_cast<Address>(memory); };
    switch (way) {
      case CopyKind::read:
        require_driver(to_host_(to, address(from), bytes, stream), "cuMemcpyDtoHAsync");
        break;
      case CopyKind::write:
        require_driver(to_device_(address(to), from, bytes, stream), "cuMemcpyHtoDAsync");
        break;
      case CopyKind::move:
        require_driver(within_device_(address(to), address(from), bytes, stream), "cuMemcpyDtoDAsync");
        break;
    }
    const int code = record_(event, stream);
    if (code != 0) synchronise_(stream);  // nobody waits for the copy, and its memory may be freed
    require_driver(code, "cuEventRecord");
  }
  bool event_is_complete(void* event) const override {
    constexpr int not_ready = 600;
    const int code = query_(event);
    if (code == not_ready) return false;
    require_driver(code, "cuEventQuery");
    return true;
  }

  bool register_memory(const DeviceMemory& at, void* memory, std::size_t bytes) const noexcept override {
    enum : unsigned { for_all_contexts = 1 };
    try {
      const InContext scope(*this, at);
      return register_(memory, bytes, for_all_contexts) == 0;
    } catch (const CommunicationError&) {
      return false;
    }
  }
  // The driver may have ended already, as at the end of a program. There is nothing to forget then.
  void forget_memory(void* memory) const noexcept override { unregister_(memory); }

 private:
  // Makes the context of the memory current. Memory of a pool has no context; it uses the primary context of
  // the device.
  class InContext {
   public:
    InContext(const Cuda& cuda, const DeviceMemory& at) : cuda_(cuda), device_(at.device) {
      void* context = at.context;
      if (context == nullptr) {
        require_driver(cuda_.retain_primary_(&context, device_), "cuDevicePrimaryCtxRetain");
        is_retained_ = true;
      }
      const int code = cuda_.push_(context);
      if (code != 0 && is_retained_) cuda_.release_primary_(device_);
      require_driver(code, "cuCtxPushCurrent");
    }
    ~InContext() {
      void* context = nullptr;
      cuda_.pop_(&context);
      if (is_retained_) cuda_.release_primary_(device_);
    }
    InContext(const InContext&) = delete;
    InContext& operator=(const InContext&) = delete;

   private:
    const Cuda& cuda_;
    const int device_;
    bool is_retained_ = false;
  };

  // This is CU_STREAM_PER_THREAD. A copy there waits for no other stream but the default one. A plain
  // cuMemcpy would wait for kernels of most streams, and may return before the data have reached the device.
  static void* stream_of_thread() { return reinterpret_cast<void*>(std::uintptr_t{2}); }

  using Address = std::uintptr_t;  // CUdeviceptr
  int (*get_attributes_)(unsigned count, int* attributes, void** values, Address address) = nullptr;
  int (*push_)(void* context) = nullptr;
  int (*pop_)(void** context) = nullptr;
  int (*retain_primary_)(void** context, int device) = nullptr;
  int (*release_primary_)(int device) = nullptr;
  int (*to_host_)(void* to, Address from, std::size_t bytes, void* stream) = nullptr;
  int (*to_device_)(Address to, const void* from, std::size_t bytes, void* stream) = nullptr;
  int (*synchronise_)(void* stream) = nullptr;
  int (*within_device_)(Address to, Address from, std::size_t bytes, void* stream) = nullptr;
  int (*create_stream_)(void** stream, unsigned flags) = nullptr;
  int (*create_event_)(void** event, unsigned flags) = nullptr;
  int (*record_)(void* event, void* stream) = nullptr;
  int (*query_)(void* event) = nullptr;
  int (*register_)(void* memory, std::size_t bytes, unsigned flags) = nullptr;
  int (*unregister_)(void* memory) = nullptr;
  int (*get_id_)(void* context, std::uint64_t* number) = nullptr;  // null: an old driver
};

constinit Cuda cuda;

}  // namespace

DeviceDriver& cuda_driver() { return cuda; }

}  // namespace offbeat
