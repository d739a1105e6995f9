// SPDX-License-Identifier: BSD-3-Clause
// This is the dlsym that programs find under the preload.
//
// Tools and the bindings of some languages look functions up in libmpi itself and find the host's. Such a
// program may start a persistent collective by a function of offbeat and wait for it in a function of the
// host, which regards the request as inactive. So a look-up of a function of the host returns offbeat's, if
// there is one. The result is always offbeat's PMPI_X, because its MPI_X may pass the call on to the tool
// that is asking.
#include <dlfcn.h>

#include <array>
#include <atomic>
#include <cstdlib>
#include <cstring>
#include <string_view>

#include "mpi/host/host.hpp"

namespace offbeat {
namespace {

using LookUp = void*(void* handle, const char* name) noexcept;

// Finds dlsym of the C library, or of another library that comes before it. Since glibc 2.34 it has another
// version.
LookUp* next_look_up() noexcept {
  static constinit std::atomic<LookUp*> known{nullptr};
  LookUp* found = known.load(std::memory_order_relaxed);
  // Every C library has the first version of its processor in this list. A failure would allocate memory.
#if defined(__aarch64__)
  constexpr std::array versions{"GLIBC_2.17", "GLIBC_2.34"};
#else
  constexpr std::array versions{"GLIBC_2.2.5", "GLIBC_2.17", "GLIBC_2.34"};
#endif
  for (const char* version : versions) {
    if (found != nullptr) break;
    found = reinterpret_cast<LookUp*>(dlvsym(RTLD_NEXT, "dlsym", version));
    known.store(found, std::memory_order_relaxed);
  }
  if (found == nullptr) std::abort();
  return found;
}

bool is_name_of_mpi(std::string_view name) noexcept {
  if (name.starts_with('P')) name.remove_prefix(1);
  return name.starts_with("MPI_") || name.starts_with("MPIX_");
}

const char in_this_library = 0;

// Returns true if the caller is this library, the tracer or an MPI. This library is recognised by its place
// in memory, because its file may have any name.
bool is_mpi_or_own_library(const void* caller) noexcept {
  Dl_info info{};
  Dl_info own{};
  if (dladdr(caller, &info) == 0) return false;
  if (dladdr(&in_this_library, &own) != 0 && own.dli_fbase == info.dli_fbase) return true;
  const std::string_view path = info.dli_fname;
  const std::string_view name = path.substr(path.rfind('/') + 1);
  return name.starts_with("liboffbeat") || name.starts_with("libmpi");
}

// Returns null if offbeat has no such function.
void* our_function(const char* name) noexcept {
  static void* const own = [] {
    Dl_info info{};
    return dladdr(&in_this_library, &info) != 0 ? dlopen(info.dli_fname, RTLD_NOLOAD | RTLD_LAZY) : nullptr;
  }();
  if (own == nullptr) return nullptr;
  std::array<char, 64> profiled{'P'};
  std::strncpy(profiled.data() + 1, name[0] == 'P' ? name + 1 : name, profiled.size() - 2);
  return next_look_up()(own, profiled.data());
}

[[gnu::noinline]] void* look_up_for(const void* caller, void* handle, const char* name) noexcept {
  void* const theirs = next_look_up()(handle, name);
  if (theirs == nullptr || is_mpi_or_own_library(caller)) return theirs;
  void* const ours = Host::is_of_family(theirs) ? our_function(name) : nullptr;
  static_cast<void>(dlerror());  // clears the error of look-ups that the caller does not know of
  return ours != nullptr ? ours : theirs;
}

}  // namespace
}  // namespace offbeat

// The result of RTLD_NEXT depends on the caller, which dlsym recognises by its return address. So the last
// call must be a jump in every build. clang cannot jump out of a function that is noexcept.
#if defined(__clang__)
#define OFFBEAT_JUMPS
#define OFFBEAT_JUMP [[clang::musttail]]
#else
#define OFFBEAT_JUMPS [[gnu::optimize("O2")]]
#define OFFBEAT_JUMP
#endif

// A program asks for the version that the C library had when the program was linked.
#if defined(__aarch64__)
__asm__(".symver dlsym_of_old_program, dlsym@GLIBC_2.17");
#else
__asm__(".symver dlsym_of_old_program, dlsym@GLIBC_2.2.5");
#endif
__asm__(".symver dlsym_of_program, dlsym@@GLIBC_2.34");

extern "C" {
OFFBEAT_JUMPS [[gnu::used]] void* dlsym_of_program(void* handle, const char* name) {
  offbeat::LookUp* const look_up = offbeat::next_look_up();
  if (handle != RTLD_NEXT && handle != RTLD_DEFAULT && offbeat::is_name_of_mpi(name))
    return offbeat::look_up_for(__builtin_return_address(0), handle, name);
  OFFBEAT_JUMP return look_up(handle, name);
}
OFFBEAT_JUMPS [[gnu::used]] void* dlsym_of_old_program(void* handle, const char* name) {
  OFFBEAT_JUMP return dlsym_of_program(handle, name);
}
}  // extern "C"
