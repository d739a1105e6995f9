// SPDX-License-Identifier: BSD-3-Clause
#include "node/device_memory.hpp"

#include <dlfcn.h>
#include <link.h>
#include <sched.h>
#include <unistd.h>

#include <climits>
#include <cstring>
#include <mutex>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/error.hpp"

namespace offbeat {
namespace {

template <class Function>
bool find(void* library, const char* name, Function*& function) {
  function = reinterpret_cast<Function*>(dlsym(library, name));
  return function != nullptr;
}

void require(int code, const char* function) {
  if (code == 0) return;
  throw CommunicationError("device memory cannot be copied: " + std::string(function) + " fails with error " +
                           std::to_string(code));
}

// The driver interface of CUDA.
class Cuda final : public DeviceDriver {
 public:
  bool load(void* library) override {
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
  bool owns(const void* address, DeviceMemory& found) const override {
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
    require(to_host_(to, reinterpret_cast<std::uintptr_t>(from), bytes, stream_of_thread()),
            "cuMemcpyDtoHAsync");
    require(synchronise_(stream_of_thread()), "cuStreamSynchronize");
  }
  void write(const DeviceMemory& at, void* to, const void* from, std::size_t bytes) const override {
    const InContext scope(*this, at);
    require(to_device_(reinterpret_cast<std::uintptr_t>(to), from, bytes, stream_of_thread()),
            "cuMemcpyHtoDAsync");
    require(synchronise_(stream_of_thread()), "cuStreamSynchronize");
  }

  // A program may reset a device. New contexts then get new numbers, but maybe old addresses. Drivers before
  // CUDA 12 have no numbers.
  std::uint64_t number_of_context(const DeviceMemory& at) const override {
    std::uint64_t number = reinterpret_cast<std::uintptr_t>(at.context);
    if (get_id_ == nullptr) return at.context != nullptr ? number : static_cast<std::uint64_t>(at.device);
    const InContext scope(*this, at);
    require(get_id_(nullptr, &number), "cuCtxGetId");
    return number;
  }
  // Such a stream waits for the default stream, as the stream of a thread does.
  void* make_stream(const DeviceMemory& at) const override {
    enum : unsigned { default_flags = 0 };
    const InContext scope(*this, at);
    void* stream = nullptr;
    require(create_stream_(&stream, default_flags), "cuStreamCreate");
    return stream;
  }
  void* make_event(const DeviceMemory& at) const override {
    enum : unsigned { without_time = 2 };
    const InContext scope(*this, at);
    void* event = nullptr;
    require(create_event_(&event, without_time), "cuEventCreate");
    return event;
  }
  void begin(Way way, const DeviceMemory& at, void* to, const void* from, std::size_t bytes, void* stream,
             void* event) const override {
    const InContext scope(*this, at);
    const auto address = [](const void* memory) { return reinterpret_cast<Address>(memory); };
    switch (way) {
      case Way::read:
        require(to_host_(to, address(from), bytes, stream), "cuMemcpyDtoHAsync");
        break;
      case Way::write:
        require(to_device_(address(to), from, bytes, stream), "cuMemcpyHtoDAsync");
        break;
      case Way::move:
        require(within_device_(address(to), address(from), bytes, stream), "cuMemcpyDtoDAsync");
        break;
    }
    require(record_(event, stream), "cuEventRecord");
  }
  bool has_happened(void* event) const override {
    constexpr int not_ready = 600;
    const int code = query_(event);
    if (code == not_ready) return false;
    require(code, "cuEventQuery");
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
        require(cuda_.retain_primary_(&context, device_), "cuDevicePrimaryCtxRetain");
        is_retained_ = true;
      }
      const int code = cuda_.push_(context);
      if (code != 0 && is_retained_) cuda_.release_primary_(device_);
      require(code, "cuCtxPushCurrent");
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

// The driver interface of HIP. Its copies need no context. The struct that hipPointerGetAttributes fills has
// changed between versions; hipPointerGetAttribute has not.
class Hip final : public DeviceDriver {
 public:
  bool load(void* library) override {
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
           find(library, "hipEventCreateWithFlags", create_event_) &&
           find(library, "hipEventRecord", record_) && find(library, "hipEventQuery", query_) &&
           find(library, "hipHostRegister", register_) && find(library, "hipHostUnregister", unregister_);
  }

  // Returns true if the address is the driver's own. Otherwise the driver fails and keeps the error for
  // hipGetLastError. That error is cleared, because the program must not find an error there that it has not
  // made.
  bool owns(const void* address, DeviceMemory& found) const override {
    const ProgramsError scope(*this);
    return is_device_memory(const_cast<void*>(address), found);
  }

  void read(const DeviceMemory&, void* to, const void* from, std::size_t bytes) const override {
    enum : int { device_to_host = 2 };
    require(copy_(to, from, bytes, device_to_host), "hipMemcpy");
  }
  void write(const DeviceMemory&, void* to, const void* from, std::size_t bytes) const override {
    enum : int { host_to_device = 1 };
    require(copy_(to, from, bytes, host_to_device), "hipMemcpy");
  }

  std::uint64_t number_of_context(const DeviceMemory& at) const override {
    return static_cast<std::uint64_t>(at.device);
  }
  void* make_stream(const DeviceMemory& at) const override {
    const OnDevice scope(*this, at);
    void* stream = nullptr;
    require(create_stream_(&stream), "hipStreamCreate");
    return stream;
  }
  void* make_event(const DeviceMemory& at) const override {
    enum : unsigned { without_time = 2 };
    const OnDevice scope(*this, at);
    void* event = nullptr;
    require(create_event_(&event, without_time), "hipEventCreateWithFlags");
    return event;
  }
  void begin(Way way, const DeviceMemory& at, void* to, const void* from, std::size_t bytes, void* stream,
             void* event) const override {
    enum : int { host_to_device = 1, device_to_host = 2, device_to_device = 3 };
    const OnDevice scope(*this, at);
    const int kind = way == Way::read    ? device_to_host
                     : way == Way::write ? host_to_device
                                         : device_to_device;
    require(begin_copy_(to, from, bytes, kind, stream), "hipMemcpyAsync");
    require(record_(event, stream), "hipEventRecord");
  }
  bool has_happened(void* event) const override {
    constexpr int not_ready = 600;
    const ProgramsError scope(*this);
    const int code = query_(event);
    if (code == not_ready) return false;
    require(code, "hipEventQuery");
    return true;
  }

  bool register_memory(const DeviceMemory& at, void* memory, std::size_t bytes) const noexcept override {
    enum : unsigned { for_all_contexts = 1 };
    const ProgramsError scope(*this);
    try {
      const OnDevice on_device(*this, at);
      return register_(memory, bytes, for_all_contexts) == 0;
    } catch (const CommunicationError&) {
      return false;
    }
  }
  void forget_memory(void* memory) const noexcept override {
    const ProgramsError scope(*this);
    unregister_(memory);
  }

 private:
  // Clears an error at the end of the scope, unless there was one before: that is the program's.
  class ProgramsError {
   public:
    explicit ProgramsError(const Hip& hip) : hip_(hip), has_error_(hip.last_error_() != 0) {}
    ~ProgramsError() {
      if (!has_error_ && hip_.last_error_() != 0) hip_.clear_last_error_();
    }
    ProgramsError(const ProgramsError&) = delete;
    ProgramsError& operator=(const ProgramsError&) = delete;

   private:
    const Hip& hip_;
    const bool has_error_;
  };

  // Makes the device of the memory the present one of this thread.
  class OnDevice {
   public:
    OnDevice(const Hip& hip, const DeviceMemory& at) : hip_(hip) {
      require(hip.get_device_(&before_), "hipGetDevice");
      if (at.device == before_) return;
      require(hip.set_device_(at.device), "hipSetDevice");
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
  int (*create_event_)(void** event, unsigned flags) = nullptr;
  int (*record_)(void* event, void* stream) = nullptr;
  int (*query_)(void* event) = nullptr;
  int (*register_)(void* memory, std::size_t bytes, unsigned flags) = nullptr;
  int (*unregister_)(void* memory) = nullptr;
};

constinit Cuda cuda;
constinit Hip hip;

struct Known {
  std::string_view library;  // file name without the version
  DeviceDriver* driver;      // null: offbeat cannot ask this driver
  std::atomic<bool> is_found{false};
};
constinit std::array known{Known{"libcuda.so", &cuda}, Known{"libamdhip64.so", &hip},
                           Known{"libze_loader.so", nullptr}};

// This stands in for the counter before drivers are looked for, and if the dynamic linker shows none.
constexpr std::uint64_t no_counter = 0;
constexpr std::uint64_t never = ~std::uint64_t{0};  // differs from every count

// What a look through the loaded libraries finds. The dynamic linker holds its lock meanwhile, so no library
// can be loaded.
struct Look {
  const std::uint64_t* counter;  // the present counter
  std::uint64_t loaded = 0;      // libraries loaded since the process began
  std::array<std::array<char, PATH_MAX>, known.size()> paths{};
};

// Points to the private state of glibc's dynamic linker, as 64-bit words. It changes as libraries are loaded.
struct LinkerWords {
  const std::uint64_t* words = nullptr;
  std::size_t size = 0;
};
constinit LinkerWords linker_words;

LinkerWords find_linker_words() {
  auto* const state = static_cast<const std::uint64_t*>(dlsym(RTLD_DEFAULT, "_rtld_global"));
  Dl_info library;
  void* symbol = nullptr;
  if (state == nullptr || dladdr1(state, &library, &symbol, RTLD_DL_SYMENT) == 0 || symbol == nullptr)
    return {};
  return {state, static_cast<const ElfW(Sym)*>(symbol)->st_size / sizeof *state};
}

// Finds glibc's own count of loaded libraries. dl_iterate_phdr reports that count, but takes longer than a
// short collective. glibc keeps it in the state of its linker, at a place that depends on the version, so
// this function looks for the number there. If the number occurs once, that is the counter.
const std::uint64_t* find_counter(std::uint64_t loaded) {
  const std::uint64_t* found = nullptr;
  // The second word is the number of libraries that are loaded at present, so the search begins behind it.
  for (std::size_t k = 2; k < linker_words.size; ++k) {
    const std::uint64_t* const word = linker_words.words + k;
    if (__atomic_load_n(word, __ATOMIC_RELAXED) != loaded) continue;
    if (found != nullptr) return nullptr;
    found = word;
  }
  return found;
}

std::uint64_t count_loaded() {
  std::uint64_t loaded = 0;
  dl_iterate_phdr(
      [](dl_phdr_info* first, std::size_t, void* result) {
        *static_cast<std::uint64_t*>(result) = first->dlpi_adds;
        return 1;
      },
      &loaded);
  return loaded;
}

int look_at(dl_phdr_info* each, std::size_t, void* state) {
  auto& look = *static_cast<Look*>(state);
  if (look.loaded == 0) {
    look.loaded = each->dlpi_adds;
    if (*look.counter != look.loaded) look.counter = find_counter(look.loaded);
  }
  const std::string_view path(each->dlpi_name);
  const std::string_view file = path.substr(path.rfind('/') + 1);
  for (std::size_t k = 0; k < known.size(); ++k) {
    if (file.starts_with(known[k].library) && path.size() < look.paths[k].size())
      std::memcpy(look.paths[k].data(), path.data(), path.size());
  }
  return 0;
}

constinit std::mutex mutex;
constinit std::uint64_t looked_through = 0;  // count of loaded libraries at the last look

void find_drivers() {
  Look look{.counter = devices::libraries.loaded.load(std::memory_order_relaxed)};
  dl_iterate_phdr(look_at, &look);
  for (std::size_t k = 0; k < known.size(); ++k) {
    Known& each = known[k];
    if (look.paths[k][0] == '\0' || each.is_found.load(std::memory_order_relaxed)) continue;
    if (each.driver != nullptr) {
      void* const library = dlopen(look.paths[k].data(), RTLD_LAZY | RTLD_NOLOAD);
      if (library == nullptr || !each.driver->load(library)) continue;
    }
    each.is_found.store(true, std::memory_order_release);
    if (each.driver == nullptr) devices::is_level_zero_found.store(true, std::memory_order_relaxed);
  }
  looked_through = look.loaded;
  devices::libraries.loaded.store(look.counter != nullptr ? look.counter : &no_counter,
                                  std::memory_order_relaxed);
}

bool any_driver() {
  for (const Known& each : known) {
    if (each.driver != nullptr && each.is_found.load(std::memory_order_acquire)) return true;
  }
  return false;
}

constinit std::atomic<std::uint64_t> seen_with_driver{never};

}  // namespace

namespace devices {

constinit std::atomic<bool> is_level_zero_found{false};
constinit Libraries libraries{.loaded = &no_counter, .seen = no_counter};

void look_for_drivers() {
  const std::lock_guard lock(mutex);
  if (libraries.seen.load(std::memory_order_relaxed) != no_counter) return;
  linker_words = find_linker_words();
  libraries.seen.store(never, std::memory_order_relaxed);
}

bool may_come() {
  return access("/dev/nvidiactl", F_OK) == 0 || access("/dev/kfd", F_OK) == 0 || may_have_memory();
}

bool look_through_libraries() {
  const auto count = [] {
    return __atomic_load_n(libraries.loaded.load(std::memory_order_relaxed), __ATOMIC_RELAXED);
  };
  if (count() == seen_with_driver.load(std::memory_order_acquire)) return true;
  const std::lock_guard lock(mutex);
  if (count_loaded() != looked_through) find_drivers();
  // If these differ, glibc's counter was not found, or another library is just being loaded.
  const std::uint64_t seen = count() == looked_through ? looked_through : never;
  const bool is_found = any_driver();
  libraries.seen.store(is_found ? never : seen, std::memory_order_relaxed);
  if (is_found) seen_with_driver.store(seen, std::memory_order_release);
  return is_found;
}

}  // namespace devices

DeviceMemory DeviceMemory::at(const void* address) {
  DeviceMemory found;
  for (const Known& each : known) {
    if (each.driver == nullptr || !each.is_found.load(std::memory_order_acquire)) continue;
    if (!each.driver->owns(address, found)) continue;
    found.driver_ = each.driver;
    return found;
  }
  return {};
}

// The streams of one context, and its events that nobody uses. It exists until the process ends.
class DeviceQueue {
 public:
  // Returns the queue for some memory of a driver.
  static DeviceQueue& of(const DeviceDriver& driver, const DeviceMemory& at) {
    static constinit DeviceQueue* first = nullptr;
    const std::uint64_t number = driver.number_of_context(at);
    const std::lock_guard lock(mutex);
    for (DeviceQueue* each = first; each != nullptr; each = each->next_) {
      if (each->driver_ == &driver && each->number_ == number) return *each;
    }
    return *(first = new DeviceQueue(driver, at, number, first));
  }

  DeviceCopy begin(DeviceDriver::Way way, const DeviceMemory& at, void* to, const void* from,
                   std::size_t bytes, bool after_writes) {
    void* const event = take_event(at);
    const bool reads = way == DeviceDriver::Way::read && !after_writes;
    try {
      driver_->begin(way, at, to, from, bytes, reads ? reads_ : writes_, event);
    } catch (...) {
      give_back(event);
      throw;
    }
    return {*this, event};
  }
  [[nodiscard]] bool has_happened(void* event) const { return driver_->has_happened(event); }
  void give_back(void* event) {
    const std::lock_guard lock(mutex_);
    events_.push_back(event);
  }

 private:
  DeviceQueue(const DeviceDriver& driver, const DeviceMemory& at, std::uint64_t number, DeviceQueue* next)
      : driver_(&driver),
        number_(number),
        next_(next),
        reads_(driver.make_stream(at)),
        writes_(driver.make_stream(at)) {}

  void* take_event(const DeviceMemory& at) {
    {
      const std::lock_guard lock(mutex_);
      if (!events_.empty()) {
        void* const event = events_.back();
        events_.pop_back();
        return event;
      }
      events_.reserve(events_.capacity() + 1);  // so that give_back() never fails
    }
    return driver_->make_event(at);
  }

  const DeviceDriver* driver_;
  const std::uint64_t number_;
  DeviceQueue* const next_;
  void* const reads_;
  void* const writes_;
  std::mutex mutex_;
  std::vector<void*> events_;
};

bool DeviceCopy::is_over() {
  if (queue_ == nullptr) return true;
  bool is_over = true;
  try {
    is_over = queue_->has_happened(event_);
  } catch (...) {
    queue_ = nullptr;  // the event is lost with its context
    throw;
  }
  if (is_over) std::exchange(queue_, nullptr)->give_back(event_);
  return is_over;
}

void DeviceCopy::wait() noexcept {
  try {
    while (!is_over()) sched_yield();
  } catch (const CommunicationError&) {
  }
}

DeviceCopy DeviceMemory::begin_read(void* to, const void* from, std::size_t bytes, bool after_writes) const {
  return DeviceQueue::of(*driver_, *this)
      .begin(DeviceDriver::Way::read, *this, to, from, bytes, after_writes);
}
DeviceCopy DeviceMemory::begin_write(void* to, const void* from, std::size_t bytes) const {
  return DeviceQueue::of(*driver_, *this).begin(DeviceDriver::Way::write, *this, to, from, bytes, true);
}
DeviceCopy DeviceMemory::begin_move(void* to, const void* from, std::size_t bytes) const {
  return DeviceQueue::of(*driver_, *this).begin(DeviceDriver::Way::move, *this, to, from, bytes, true);
}

HostRegistration::HostRegistration(const DeviceMemory& driver_of, void* memory, std::size_t bytes) noexcept
    : memory_(memory) {
  if (driver_of.driver_->register_memory(driver_of, memory, bytes)) driver_ = driver_of.driver_;
}
HostRegistration::~HostRegistration() {
  if (driver_ != nullptr) driver_->forget_memory(memory_);
}

void DeviceMemory::read(void* to, const void* from, std::size_t bytes) const {
  driver_->read(*this, to, from, bytes);
}
void DeviceMemory::write(void* to, const void* from, std::size_t bytes) const {
  driver_->write(*this, to, from, bytes);
}

}  // namespace offbeat
