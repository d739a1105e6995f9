// SPDX-License-Identifier: BSD-3-Clause
// The driver of a GPU that does not exist, for tests. It stands in for libcuda.so.1 or, with STUB_HIP, for
// libamdhip64.so.
//
// It maps its device memory twice. Nobody may read or write at the address that it hands out; its copies go
// to the other address. It carries out a copy only if the context of the memory is current, and only when
// somebody has asked whether it is complete, at the earliest after the delay that a test wants. A copy from
// or to host memory that is not registered keeps the caller waiting, as that of a real driver. So a test
// fails if offbeat touches the memory, forgets the context or the stream, uses a result too early, or lets
// somebody write to a source too early.
#include "stub_gpu.h"

#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <deque>
#include <functional>
#include <list>
#include <map>
#include <mutex>
#include <thread>
#include <utility>
#include <vector>

namespace {

enum : int {
  success = 0,
  invalid_value = 1,
  invalid_context = 201,
  invalid_handle = 400,
  not_ready = 600,
  already_registered = 712,
  not_registered = 713
};

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

// -- streams, events and registered memory

using Clock = std::chrono::steady_clock;

std::atomic<double> delay_us{0};
const double us_per_mib = [] {
  const char* const text = std::getenv("STUB_GPU_US_PER_MIB");
  return text != nullptr ? std::atof(text) : 0;
}();
void delay(double microseconds) { delay_us = microseconds; }

std::atomic<long> allowed{-1};
void allow(long copies) { allowed = copies; }

struct Event {
  void* context;
  bool has_happened = true;
};
// A copy, or the mark that makes an event happen.
struct Step {
  std::function<void()> copy;
  Event* event = nullptr;
  Clock::time_point due;
};
struct Stream {
  void* context;
  std::deque<Step> steps{};
  Clock::time_point last_due{};
};

std::recursive_mutex streams_mutex;  // guards the following, and all streams and events
std::list<Stream> streams;
std::list<Event> events;
std::map<std::uintptr_t, std::size_t> registered;
long under_way = 0;

bool is_registered(const void* address, std::size_t bytes) {
  const auto at = reinterpret_cast<std::uintptr_t>(address);
  auto next = registered.upper_bound(at);
  if (next == registered.begin()) return false;
  --next;
  return at + bytes <= next->first + next->second;
}

bool may_make(const Step& step) {
  if (Clock::now() < step.due) return false;
  if (step.event != nullptr || allowed < 0) return true;
  if (allowed == 0) return false;
  --allowed;
  return true;
}

// Makes the copies of a stream that are due and allowed, or all.
void run(Stream& stream, bool all) {
  while (!stream.steps.empty() && (all || may_make(stream.steps.front()))) {
    if (all) std::this_thread::sleep_until(stream.steps.front().due);
    const Step step = stream.steps.front();
    stream.steps.pop_front();
    if (step.event != nullptr) {
      step.event->has_happened = true;
    } else {
      step.copy();
      --under_way;
    }
  }
}

void enqueue(Stream& stream, std::function<void()> copy, const void* host, std::size_t bytes) {
  const std::lock_guard lock(streams_mutex);
  const std::chrono::duration<double, std::micro> time(delay_us.load() +
                                                       us_per_mib * static_cast<double>(bytes) / (1 << 20));
  stream.last_due =
      std::max(stream.last_due, Clock::now()) + std::chrono::duration_cast<Clock::duration>(time);
  stream.steps.push_back({std::move(copy), nullptr, stream.last_due});
  ++under_way;
  if (under_way > calls[STUB_AT_ONCE]) calls[STUB_AT_ONCE] = under_way;
  if (host == nullptr || is_registered(host, bytes)) return;
  ++calls[STUB_BLOCKING];
  run(stream, true);
}

Stream* new_stream(void* context) {
  const std::lock_guard lock(streams_mutex);
  return &streams.emplace_back(Stream{context});
}
Event* new_event(void* context) {
  const std::lock_guard lock(streams_mutex);
  return &events.emplace_back(Event{context});
}
int record(Event* event, Stream* stream) {
  if (const int code = count(STUB_RECORD)) return code;
  const std::lock_guard lock(streams_mutex);
  if (event->context != stream->context) return invalid_handle;
  event->has_happened = false;
  stream->steps.push_back({{}, event, stream->last_due});
  return success;
}
int synchronise(Stream& stream) {
  const std::lock_guard lock(streams_mutex);
  if (!stream.steps.empty()) ++calls[STUB_BLOCKING];
  run(stream, true);
  return success;
}
int query(Event* event) {
  if (const int code = count(STUB_EVENT)) return code;
  const std::lock_guard lock(streams_mutex);
  for (Stream& each : streams) run(each, false);
  return event->has_happened ? success : not_ready;
}
int register_memory(void* memory, std::size_t bytes) {
  if (const int code = count(STUB_REGISTER)) return code;
  const std::lock_guard lock(streams_mutex);
  const auto at = reinterpret_cast<std::uintptr_t>(memory);
  for (const auto& [begin, length] : registered) {
    if (at < begin + length && begin < at + bytes) return already_registered;
  }
  registered[at] = bytes;
  return success;
}
int forget_memory(void* memory) {
  ++calls[STUB_FORGET];
  const std::lock_guard lock(streams_mutex);
  return registered.erase(reinterpret_cast<std::uintptr_t>(memory)) == 1 ? success : not_registered;
}

}  // namespace

extern "C" {

extern const stub_gpu stub_gpu_functions;
const stub_gpu stub_gpu_functions{allocate, release, read, write, calls_of, fail, depth, delay, allow};

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
  ++calls[STUB_BLOCKING];
  std::memcpy(is_read ? to : memory, is_read ? memory : from, bytes);
  return success;
}

static thread_local int present_device = 0;
int hipGetDevice(int* device) {
  *device = present_device;
  return success;
}
int hipSetDevice(int device) {
  present_device = device;
  return device == 0 ? success : invalid_value;
}
int hipStreamCreate(void** stream) {
  *stream = new_stream(nullptr);
  return success;
}
int hipEventCreateWithFlags(void** event, unsigned) {
  *event = new_event(nullptr);
  return success;
}
int hipMemcpyAsync(void* to, const void* from, std::size_t bytes, int kind, void* stream) {
  if (kind < 1 || kind > 3) return invalid_value;
  if (const int code = count(kind == 2 ? STUB_READ : STUB_WRITE)) return code;
  std::byte* destination = static_cast<std::byte*>(to);
  std::byte* source = static_cast<std::byte*>(const_cast<void*>(from));
  const void* const host = kind == 1 ? from : kind == 2 ? to : nullptr;
  if (kind != 2 && find(to, bytes, &destination) == nullptr) return invalid_value;
  if (kind != 1 && find(from, bytes, &source) == nullptr) return invalid_value;
  enqueue(
      *static_cast<Stream*>(stream), [=] { std::memmove(destination, source, bytes); }, host, bytes);
  return success;
}
int hipStreamSynchronize(void* stream) { return synchronise(*static_cast<Stream*>(stream)); }
int hipEventRecord(void* event, void* stream) {
  return record(static_cast<Event*>(event), static_cast<Stream*>(stream));
}
int hipEventQuery(void* event) {
  const int code = query(static_cast<Event*>(event));
  if (code != success) last_error = code;
  return code;
}
int hipHostRegister(void* memory, std::size_t bytes, unsigned) {
  const int code = register_memory(memory, bytes);
  if (code != success) last_error = code;
  return code;
}
int hipHostUnregister(void* memory) { return forget_memory(memory); }

#else

static char context_of_allocations;
static char primary_context;

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

// This is the stream of the calling thread.
static Stream& of_thread() {
  static thread_local Stream* const mine = new_stream(nullptr);
  return *mine;
}
static Stream& stream_at(void* stream) {
  return reinterpret_cast<std::uintptr_t>(stream) == 2 ? of_thread() : *static_cast<Stream*>(stream);
}

static int copy(stub_call call, const void* device, std::size_t bytes, const void* host, void* stream,
                const std::function<void(std::byte*)>& use) {
  if (const int code = count(call)) return code;
  std::byte* memory = nullptr;
  const Allocation* const found = find(device, bytes, &memory);
  if (found == nullptr || !is_for_device(*found)) return invalid_value;
  const void* const needed = found->kind == STUB_POOL ? &primary_context : &context_of_allocations;
  if (contexts.empty() || contexts.back() != needed) return invalid_context;
  Stream& on = stream_at(stream);
  if (on.context != nullptr && on.context != needed) return invalid_handle;
  enqueue(
      on, [=] { use(memory); }, host, bytes);
  return success;
}
int cuMemcpyDtoHAsync_v2(void* to, std::uintptr_t from, std::size_t bytes, void* stream) {
  return copy(STUB_READ, reinterpret_cast<void*>(from), bytes, to, stream,
              [=](std::byte* memory) { std::memcpy(to, memory, bytes); });
}
int cuMemcpyHtoDAsync_v2(std::uintptr_t to, const void* from, std::size_t bytes, void* stream) {
  return copy(STUB_WRITE, reinterpret_cast<void*>(to), bytes, from, stream,
              [=](std::byte* memory) { std::memcpy(memory, from, bytes); });
}
int cuMemcpyDtoDAsync_v2(std::uintptr_t to, std::uintptr_t from, std::size_t bytes, void* stream) {
  std::byte* source = nullptr;
  if (find(reinterpret_cast<void*>(from), bytes, &source) == nullptr) return invalid_value;
  return copy(STUB_WRITE, reinterpret_cast<void*>(to), bytes, nullptr, stream,
              [=](std::byte* memory) { std::memmove(memory, source, bytes); });
}
int cuStreamSynchronize(void* stream) { return synchronise(stream_at(stream)); }
int cuStreamCreate(void** stream, unsigned) {
  if (contexts.empty()) return invalid_context;
  *stream = new_stream(contexts.back());
  return success;
}
int cuEventCreate(void** event, unsigned) {
  if (contexts.empty()) return invalid_context;
  *event = new_event(contexts.back());
  return success;
}
int cuEventRecord(void* event, void* stream) {
  return record(static_cast<Event*>(event), static_cast<Stream*>(stream));
}
int cuEventQuery(void* event) { return query(static_cast<Event*>(event)); }
int cuMemHostRegister_v2(void* memory, std::size_t bytes, unsigned) {
  return contexts.empty() ? invalid_context : register_memory(memory, bytes);
}
int cuMemHostUnregister(void* memory) { return forget_memory(memory); }

#endif

}  // extern "C"
