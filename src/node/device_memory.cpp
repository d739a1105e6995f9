// SPDX-License-Identifier: BSD-3-Clause
#include "node/device_memory.hpp"

#include <dlfcn.h>
#include <link.h>
#include <unistd.h>

#include <climits>
#include <cstring>
#include <mutex>
#include <string>
#include <string_view>

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
           find(library, "cuStreamSynchronize", synchronise_);
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
           find(library, "hipGetLastError", clear_last_error_);
  }

  // Returns true if the address is the driver's own. Otherwise the driver fails and keeps the error for
  // hipGetLastError. That error is cleared, because the program must not find an error there that it has not
  // made.
  bool owns(const void* address, DeviceMemory&) const override {
    const bool has_error = last_error_() != 0;
    const bool is_own = is_device_memory(const_cast<void*>(address));
    if (!has_error && last_error_() != 0) clear_last_error_();
    return is_own;
  }

  void read(const DeviceMemory&, void* to, const void* from, std::size_t bytes) const override {
    enum : int { device_to_host = 2 };
    require(copy_(to, from, bytes, device_to_host), "hipMemcpy");
  }
  void write(const DeviceMemory&, void* to, const void* from, std::size_t bytes) const override {
    enum : int { host_to_device = 1 };
    require(copy_(to, from, bytes, host_to_device), "hipMemcpy");
  }

 private:
  [[nodiscard]] bool is_device_memory(void* address) const {
    enum : int { memory_type = 2, is_managed = 8 };
    unsigned type = 0;
    unsigned managed = 0;
    if (get_attribute_(&type, memory_type, address) != 0 || type != device_memory_) return false;
    return get_attribute_(&managed, is_managed, address) != 0 || managed == 0;
  }

  unsigned device_memory_ = 0;  // hipMemoryTypeDevice, whose value differs between versions
  int (*last_error_)() = nullptr;
  int (*clear_last_error_)() = nullptr;
  int (*get_attribute_)(void* value, int attribute, void* address) = nullptr;
  int (*copy_)(void* to, const void* from, std::size_t bytes, int kind) = nullptr;
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

// The private state of glibc's dynamic linker.
struct LinkerState {
  const std::uint64_t* words = nullptr;
  std::size_t size = 0;
};
constinit LinkerState linker_state;

LinkerState find_linker_state() {
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
  for (std::size_t k = 2; k < linker_state.size; ++k) {
    const std::uint64_t* const word = linker_state.words + k;
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
  linker_state = find_linker_state();
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

void DeviceMemory::read(void* to, const void* from, std::size_t bytes) const {
  driver_->read(*this, to, from, bytes);
}
void DeviceMemory::write(void* to, const void* from, std::size_t bytes) const {
  driver_->write(*this, to, from, bytes);
}

}  // namespace offbeat
