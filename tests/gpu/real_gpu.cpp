// SPDX-License-Identifier: BSD-3-Clause
// Puts a real GPU behind the functions of the stub driver (tests/support/stub_gpu.h), so that the same
// programs test both. It needs no toolkit: it uses the driver, libcuda.so.1.
#include <dlfcn.h>

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <map>
#include <mutex>

#include "../support/stub_gpu.h"

namespace {

using Address = std::uintptr_t;

void* driver() {
  static void* const library = dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) {
    std::fprintf(stderr, "no driver: %s\n", dlerror());
    std::exit(2);
  }
  return library;
}

template <class... Arguments>
int code_of(const char* name, Arguments... arguments) {
  auto* const function = reinterpret_cast<int (*)(Arguments...)>(dlsym(driver(), name));
  return function != nullptr ? function(arguments...) : -1;
}
// Calls a function of the driver. An error ends the process.
template <class... Arguments>
void call(const char* name, Arguments... arguments) {
  const int code = code_of(name, arguments...);
  if (code == 0) return;
  std::fprintf(stderr, "%s fails with error %d\n", name, code);
  std::abort();
}
// Like call(), but returns false, with a line on standard output, if this machine has no such memory.
template <class... Arguments>
bool can(const char* name, Arguments... arguments) {
  const int code = code_of(name, arguments...);
  if (code != 0) std::printf("%s fails with error %d: not tested\n", name, code);
  return code == 0;
}

// Makes the primary context current, which the CUDA runtime uses. It is current only while this file needs
// it.
class InContext {
 public:
  InContext() {
    static void* const context = [] {
      call("cuInit", 0U);
      void* made = nullptr;
      call("cuDevicePrimaryCtxRetain", &made, 0);
      return made;
    }();
    call("cuCtxPushCurrent_v2", context);
  }
  ~InContext() {
    void* context = nullptr;
    call("cuCtxPopCurrent_v2", &context);
  }
  InContext(const InContext&) = delete;
  InContext& operator=(const InContext&) = delete;
};

constexpr auto plain = static_cast<stub_kind>(-1);  // memory of the host

std::mutex mutex;
std::map<void*, stub_kind> kinds;

void* allocate(std::size_t bytes, stub_kind kind) {
  const InContext scope;
  if (bytes == 0) bytes = 1;
  Address address = 0;
  void* memory = nullptr;
  void* const default_stream = nullptr;
  if (kind == STUB_REGISTERED) {
    const std::size_t page = 4096;
    memory = std::aligned_alloc(page, (bytes / page + 1) * page);
    if (!can("cuMemHostRegister_v2", memory, bytes, 0U)) kind = plain;
  } else if (kind == STUB_POOL && can("cuMemAllocAsync", &address, bytes, default_stream)) {
    call("cuStreamSynchronize", default_stream);
  } else if (kind != STUB_MANAGED || !can("cuMemAllocManaged", &address, bytes, 1U)) {  // attached globally
    kind = STUB_DEVICE;
    call("cuMemAlloc_v2", &address, bytes);
  }
  if (memory == nullptr) memory = reinterpret_cast<void*>(address);
  const std::lock_guard lock(mutex);
  kinds[memory] = kind;
  return memory;
}

void release(void* memory) {
  const InContext scope;
  stub_kind kind{};
  {
    const std::lock_guard lock(mutex);
    kind = kinds.at(memory);
    kinds.erase(memory);
  }
  if (kind == STUB_REGISTERED || kind == plain) {
    if (kind == STUB_REGISTERED) call("cuMemHostUnregister", memory);
    std::free(memory);
  } else if (kind == STUB_POOL) {
    void* const default_stream = nullptr;
    call("cuMemFreeAsync", reinterpret_cast<Address>(memory), default_stream);
  } else {
    call("cuMemFree_v2", reinterpret_cast<Address>(memory));
  }
}

void read(void* to, const void* from, std::size_t bytes) {
  const InContext scope;
  if (bytes > 0) call("cuMemcpy", reinterpret_cast<Address>(to), reinterpret_cast<Address>(from), bytes);
  call("cuCtxSynchronize");
}
void write(void* to, const void* from, std::size_t bytes) { read(to, from, bytes); }

// A real driver does not count calls, nor fail on request.
long calls(stub_call) { return 1; }
void fail(stub_call, int) {}
void delay(double) {}
void allow(long) {}

int depth() {
  void* context = nullptr;
  call("cuCtxGetCurrent", &context);
  return context == nullptr ? 0 : 1;
}

}  // namespace

extern "C" {
extern const stub_gpu stub_gpu_functions;
const stub_gpu stub_gpu_functions{allocate, release, read, write, calls, fail, depth, delay, allow};
}
