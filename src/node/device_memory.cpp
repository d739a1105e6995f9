// SPDX-License-Identifier: BSD-3-Clause
#include "node/device_memory.hpp"

#include <dlfcn.h>
#include <link.h>
#include <pthread.h>
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
#include "base/fork_lock.hpp"
#include "node/device_driver.hpp"

namespace offbeat {
namespace {

struct Known {
  std::string_view library;   // file name without the version
  DeviceDriver& (*driver)();  // null: offbeat cannot ask this driver
  std::atomic<bool> is_found{false};
};
constinit std::array known{Known{"libcuda.so", cuda_driver}, Known{"libamdhip64.so", hip_driver},
                           Known{"libze_loader.so", nullptr}};

// This stands in for the counter before drivers are looked for, and if the dynamic linker shows none.
constexpr std::uint64_t no_counter = 0;
constexpr std::uint64_t never = ~std::uint64_t{0};  // differs from every count

// These are guarded by `mutex`.
constinit ForkLock mutex;
constinit std::uint64_t loaded_at_last_look = 0;  // count of loaded libraries at the last look

// What a look through the loaded libraries finds. The dynamic linker holds its lock meanwhile, so no library
// can be loaded. It is too long for the stack of a thread.
struct LibraryScan {
  const std::uint64_t* counter = nullptr;  // the present counter
  std::uint64_t loaded = 0;                // libraries loaded since the process began
  std::array<std::array<char, PATH_MAX>, known.size()> paths{};
};
constinit LibraryScan look;

// Points to the private state of glibc's dynamic linker, as 64-bit words. It changes as libraries are loaded.
struct LinkerMemory {
  const std::uint64_t* words = nullptr;
  std::size_t size = 0;
};
constinit LinkerMemory linker_memory;

LinkerMemory find_linker_memory() {
  auto* const state = static_cast<const std::uint64_t*>(dlsym(RTLD_DEFAULT, "_rtld_global"));
  Dl_info library;
  void* symbol = nullptr;
  if (state == nullptr || dladdr1(state, &library, &symbol, RTLD_DL_SYMENT) == 0 || symbol == nullptr)
    return {};
  return {state, static_cast<const ElfW(Sym)*>(symbol)->st_size / sizeof *state};
}

// Returns true if a lock lies in front of the word, as in front of glibc's counter.
bool is_behind_lock(const std::uint64_t* word) {
  const auto* const before = reinterpret_cast<const pthread_mutex_t*>(word) - 1;
  return reinterpret_cast<const std::uint64_t*>(before) >= linker_memory.words &&
         before->__data.__kind == PTHREAD_MUTEX_RECURSIVE;
}

// Finds glibc's own count of loaded libraries. dl_iterate_phdr reports that count, but takes longer than a
// short collective. glibc keeps it in the state of its linker, at a place that depends on the version, so
// this function looks for the number there. If the number occurs once, that is the counter. If a constant has
// the same value, the counter is the only occurrence behind a lock.
const std::uint64_t* find_counter(std::uint64_t loaded) {
  std::size_t all = 0;
  std::size_t behind_locks = 0;
  const std::uint64_t* found = nullptr;
  // The second word is the number of libraries that are loaded at present, so the search begins behind it.
  for (std::size_t k = 2; k < linker_memory.size; ++k) {
    const std::uint64_t* const word = linker_memory.words + k;
    if (__atomic_load_n(word, __ATOMIC_RELAXED) != loaded) continue;
    ++all;
    behind_locks += is_behind_lock(word) ? 1 : 0;
    if (all == 1 || is_behind_lock(word)) found = word;
  }
  return all == 1 || behind_locks == 1 ? found : nullptr;
}

std::uint64_t loaded_library_count() {
  std::uint64_t loaded = 0;
  dl_iterate_phdr(
      [](dl_phdr_info* first, std::size_t, void* result) {
        *static_cast<std::uint64_t*>(result) = first->dlpi_adds;
        return 1;
      },
      &loaded);
  return loaded;
}

int scan_library(dl_phdr_info* each, std::size_t, void*) {
  if (look.loaded == 0) {
    look.loaded = each->dlpi_adds;
    if (*look.counter != look.loaded) look.counter = find_counter(look.loaded);
  }
  const std::string_view path(each->dlpi_name);
  const std::string_view file = path.substr(path.rfind('/') + 1);
  for (std::size_t k = 0; k < known.size(); ++k) {
    if (file.starts_with(known[k].library) && path.size() < look.paths[k].size())
      look.paths[k][path.copy(look.paths[k].data(), path.size())] = '\0';
  }
  return 0;
}

void find_drivers() {
  look.counter = devices::libraries.loaded.load(std::memory_order_relaxed);
  look.loaded = 0;
  for (auto& each : look.paths) each[0] = '\0';
  dl_iterate_phdr(scan_library, nullptr);
  for (std::size_t k = 0; k < known.size(); ++k) {
    Known& each = known[k];
    if (look.paths[k][0] == '\0' || each.is_found.load(std::memory_order_relaxed)) continue;
    if (each.driver != nullptr) {
      void* const library = dlopen(look.paths[k].data(), RTLD_LAZY | RTLD_NOLOAD);
      if (library == nullptr || !each.driver().load_functions(library)) continue;
    }
    each.is_found.store(true, std::memory_order_release);
    if (each.driver == nullptr) devices::is_level_zero_found.store(true, std::memory_order_relaxed);
  }
  loaded_at_last_look = look.loaded;
  devices::libraries.loaded.store(look.counter != nullptr ? look.counter : &no_counter,
                                  std::memory_order_relaxed);
}

bool is_any_driver_found() {
  for (const Known& each : known) {
    if (each.driver != nullptr && each.is_found.load(std::memory_order_acquire)) return true;
  }
  return false;
}

constinit std::atomic<std::uint64_t> loaded_at_last_search{never};

}  // namespace

namespace devices {

constinit std::atomic<bool> is_level_zero_found{false};
constinit Libraries libraries{.loaded = &no_counter, .seen = no_counter};

void look_for_drivers() {
  const std::lock_guard lock(mutex);
  if (libraries.seen.load(std::memory_order_relaxed) != no_counter) return;
  linker_memory = find_linker_memory();
  libraries.seen.store(never, std::memory_order_relaxed);
}

bool may_have_driver() {
  return access("/dev/nvidiactl", F_OK) == 0 || access("/dev/kfd", F_OK) == 0 || may_have_memory();
}

bool look_through_libraries() {
  const auto count = [] {
    return __atomic_load_n(libraries.loaded.load(std::memory_order_relaxed), __ATOMIC_RELAXED);
  };
  if (count() == loaded_at_last_search.load(std::memory_order_acquire)) return true;
  const std::lock_guard lock(mutex);
  if (loaded_library_count() != loaded_at_last_look) find_drivers();
  // If these differ, glibc's counter was not found, or another library is just being loaded.
  const std::uint64_t seen = count() == loaded_at_last_look ? loaded_at_last_look : never;
  const bool is_found = is_any_driver_found();
  libraries.seen.store(is_found ? never : seen, std::memory_order_relaxed);
  if (is_found) loaded_at_last_search.store(seen, std::memory_order_release);
  return is_found;
}

}  // namespace devices

DeviceMemory DeviceMemory::at(const void* address) {
  DeviceMemory found;
  for (const Known& each : known) {
    if (each.driver == nullptr || !each.is_found.load(std::memory_order_acquire)) continue;
    if (!each.driver().find_device_memory(address, found)) continue;
    found.driver_ = &each.driver();
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
    const std::uint64_t number = driver.context_id(at);
    const std::lock_guard lock(mutex);
    for (DeviceQueue* each = first; each != nullptr; each = each->next_) {
      if (each->driver_ == &driver && each->number_ == number) return *each;
    }
    return *(first = new DeviceQueue(driver, at, number, first));
  }

  DeviceCopy begin(DeviceDriver::CopyKind way, const DeviceMemory& at, void* to, const void* from,
                   std::size_t bytes, bool after_writes) {
    void* const event = take_event(at);
    const bool reads = way == DeviceDriver::CopyKind::read && !after_writes;
    try {
      driver_->begin_copy(way, at, to, from, bytes, reads ? reads_ : writes_, event);
    } catch (...) {
      give_back(event);
      throw;
    }
    return {*this, event};
  }
  [[nodiscard]] bool event_is_complete(void* event) const { return driver_->event_is_complete(event); }
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
    is_over = queue_->event_is_complete(event_);
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
      .begin(DeviceDriver::CopyKind::read, *this, to, from, bytes, after_writes);
}
DeviceCopy DeviceMemory::begin_write(void* to, const void* from, std::size_t bytes) const {
  return DeviceQueue::of(*driver_, *this).begin(DeviceDriver::CopyKind::write, *this, to, from, bytes, true);
}
DeviceCopy DeviceMemory::begin_move(void* to, const void* from, std::size_t bytes) const {
  return DeviceQueue::of(*driver_, *this).begin(DeviceDriver::CopyKind::move, *this, to, from, bytes, true);
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
