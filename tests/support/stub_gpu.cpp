// SPDX-License-Identifier: BSD-3-Clause
// The driver of a GPU that does not exist, for tests. It stands in for libcuda.so.1 or, with STUB_HIP, for
// libamdhip64.so.
//
// It maps its device memory twice. Nobody may read or write at the address that it hands out; its copies go
// to the other address. It carries out a copy only if the context of the memory is current, and only when the
// stream is synchronised. So a test fails if offbeat touches the memory, or forgets the context or the
// stream.
#include "stub_gpu.h"

#include <sys/mman.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <cstdint>
#include <cstring>
#include <functional>
#include <map>
#include <mutex>
#include <utility>
#include <vector>

namespace {

enum : int { success = 0, invalid_value = 1, not_initialized = 3, invalid_context = 201 };

struct Allocation {
  std::size_t bytes;
  stub_kind kind;
  std::byte* memory;  // where it can be read and written
};
std::mutex mutex;
std::map<std::uintptr_t, Allocation> allocations;
std::array<std::atomic<long>, STUB_CALLS> calls;
std::array<std::atomic<int>, STUB_CALLS> failures;

int count(stub_call call) {
  ++calls[call];
  return failures[call];
}

bool is_for_device(const Allocation& of) { return of.kind == STUB_DEVICE || of.kind == STUB_POOL; }

// Returns null if the address is not in memory of this driver.
const Allocation* find(const void* address, std::size_t bytes, std::byte** memory = nullptr) {
  const auto at = reinterpret_cast<std::uintptr_t>(address);
  const std::lock_guard lock(mutex);
  auto next = allocations.upper_bound(at);
  if (next == allocations.begin()) return nullptr;
  const auto& [begin, allocation] = *--next;
  if (at - begin + bytes > allocation.bytes) return nullptr;
  if (memory != nullptr) *memory = allocation.memory + (at - begin);
  return &allocation;
}

void* allocate(std::size_t bytes, stub_kind kind) {
  const auto page = static_cast<std::size_t>(sysconf(_SC_PAGESIZE));
  const std::size_t all = (bytes / page + 1) * page;
  const int file = memfd_create("stub_gpu", MFD_CLOEXEC);
  if (file < 0 || ftruncate(file, static_cast<off_t>(all)) != 0) abort();
  void* const memory = mmap(nullptr, all, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
  const bool is_hidden = kind == STUB_DEVICE || kind == STUB_POOL;
  void* const handed_out = is_hidden ? mmap(nullptr, all, PROT_NONE, MAP_SHARED, file, 0) : memory;
  close(file);
  if (memory == MAP_FAILED || handed_out == MAP_FAILED) abort();
  const std::lock_guard lock(mutex);
  allocations[reinterpret_cast<std::uintptr_t>(handed_out)] = {all, kind, static_cast<std::byte*>(memory)};
  return handed_out;
}

void release(void* memory) {
  const std::lock_guard lock(mutex);
  const auto found = allocations.find(reinterpret_cast<std::uintptr_t>(memory));
  if (found == allocations.end()) abort();
  munmap(memory, found->second.bytes);
  if (found->second.memory != memory) munmap(found->second.memory, found->second.bytes);
  allocations.erase(found);
}

void read(void* to, const void* from, std::size_t bytes) {
  std::byte* memory = nullptr;
  if (find(from, bytes, &memory) == nullptr) abort();
  std::memcpy(to, memory, bytes);
}
void write(void* to, const void* from, std::size_t bytes) {
  std::byte* memory = nullptr;
  if (find(to, bytes, &memory) == nullptr) abort();
  std::memcpy(memory, from, bytes);
}

long calls_of(stub_call call) { return calls[call]; }
void fail(stub_call call, int code) { failures[call] = code; }

thread_local std::vector<void*> contexts;
int depth() { return static_cast<int>(contexts.size()); }

}  // namespace

extern "C" {

extern const stub_gpu stub_gpu_functions;
const stub_gpu stub_gpu_functions{allocate, release, read, write, calls_of, fail, depth};

#ifdef STUB_HIP

// Whether this is HIP 5, whose numbers for device memory differ from those of HIP 6.
static bool is_old() { return STUB_HIP < 6; }

int hipRuntimeGetVersion(int* version) {
  *version = STUB_HIP * 10'000'000 + 12345;
  return success;
}

// As in HIP, a failure stays in the thread until somebody asks.
static thread_local int last_error = success;

int hipPeekAtLastError() { return last_error; }
int hipGetLastError() { return std::exchange(last_error, success); }

static int attribute_of(void* value, int attribute, void* address) {
  if (const int code = count(STUB_QUERY)) return code;
  const Allocation* const found = find(address, 1);
  if (found == nullptr) return invalid_value;
  const bool is_host = found->kind == STUB_REGISTERED;
  switch (attribute) {
    case 2:
      *static_cast<unsigned*>(value) = (is_host ? 0u : 1u) + (is_old() ? 0u : 1u);
      return success;
    case 8:
      *static_cast<unsigned*>(value) = found->kind == STUB_MANAGED ? 1 : 0;
      return success;
    default:
      return invalid_value;
  }
}

int hipPointerGetAttribute(void* value, int attribute, void* address) {
  const int code = attribute_of(value, attribute, address);
  if (code != success) last_error = code;
  return code;
}

int hipMemcpy(void* to, const void* from, std::size_t bytes, int kind) {
  const bool is_read = kind == 2;
  if (!is_read && kind != 1) return invalid_value;
  if (const int code = count(is_read ? STUB_READ : STUB_WRITE)) return code;
  std::byte* memory = nullptr;
  const Allocation* const found = find(is_read ? from : to, bytes, &memory);
  if (found == nullptr || !is_for_device(*found)) return invalid_value;
  std::memcpy(is_read ? to : memory, is_read ? memory : from, bytes);
  return success;
}

#else

static char context_of_allocations;
static char primary_context;
static thread_local std::vector<std::function<void()> > stream;

int cuPointerGetAttributes(unsigned number, int* attributes, void** values, std::uintptr_t address) {
  if (const int code = count(STUB_QUERY)) return code;
  const Allocation* const found = find(reinterpret_cast<void*>(address), 1);
  for (unsigned k = 0; k < number; ++k) {
    switch (attributes[k]) {
      case 1: {
        const bool has_context = found != nullptr && found->kind != STUB_POOL;
        *static_cast<void**>(values[k]) = has_context ? &context_of_allocations : nullptr;
        break;
      }
      case 2:
        *static_cast<unsigned*>(values[k]) = found == nullptr ? 0 : found->kind == STUB_REGISTERED ? 1 : 2;
        break;
      case 8:  // one byte is all that a driver writes
        *static_cast<unsigned char*>(values[k]) = found != nullptr && found->kind == STUB_MANAGED;
        break;
      case 9:
        *static_cast<int*>(values[k]) = found == nullptr ? -2 : 0;
        break;
      default:
        return invalid_value;
    }
  }
  return success;
}

int cuCtxPushCurrent_v2(void* context) {
  contexts.push_back(context);
  return success;
}
int cuCtxPopCurrent_v2(void** context) {
  if (contexts.empty()) return invalid_context;
  *context = contexts.back();
  contexts.pop_back();
  return success;
}
int cuDevicePrimaryCtxRetain(void** context, int device) {
  if (device != 0) return invalid_value;
  *context = &primary_context;
  return success;
}
int cuDevicePrimaryCtxRelease_v2(int device) { return device == 0 ? success : invalid_value; }

static int copy(stub_call call, const void* device, std::size_t bytes, std::function<void(std::byte*)> use) {
  if (const int code = count(call)) return code;
  std::byte* memory = nullptr;
  const Allocation* const found = find(device, bytes, &memory);
  if (found == nullptr || !is_for_device(*found)) return invalid_value;
  const void* const needed = found->kind == STUB_POOL ? &primary_context : &context_of_allocations;
  if (contexts.empty() || contexts.back() != needed) return invalid_context;
  stream.push_back([=] { use(memory); });
  return success;
}
int cuMemcpyDtoHAsync_v2(void* to, std::uintptr_t from, std::size_t bytes, void*) {
  return copy(STUB_READ, reinterpret_cast<void*>(from), bytes,
              [=](std::byte* memory) { std::memcpy(to, memory, bytes); });
}
int cuMemcpyHtoDAsync_v2(std::uintptr_t to, const void* from, std::size_t bytes, void*) {
  return copy(STUB_WRITE, reinterpret_cast<void*>(to), bytes,
              [=](std::byte* memory) { std::memcpy(memory, from, bytes); });
}
int cuStreamSynchronize(void*) {
  for (const auto& each : stream) each();
  stream.clear();
  return success;
}

#endif

}  // extern "C"
