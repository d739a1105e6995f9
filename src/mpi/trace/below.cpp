// SPDX-License-Identifier: BSD-3-Clause
#include "mpi/trace/below.hpp"

#include <dlfcn.h>
#include <unistd.h>

#include <mutex>

#include "base/error.hpp"
#include "base/log.hpp"
#include "base/settings.hpp"

namespace offbeat::trace {
namespace {

// Not RTLD_NEXT for every function: python loads libmpi privately, and there may be more than one in the
// process.
void* preloaded_offbeat() {
  void* version = dlsym(RTLD_NEXT, "offbeat_version");
  Dl_info info{};
  if (version == nullptr || dladdr(version, &info) == 0) return nullptr;
  return dlopen(info.dli_fname, RTLD_NOLOAD | RTLD_LAZY);
}

}  // namespace

Below::Below() : offbeat_(preloaded_offbeat()) {
  if (offbeat_ == nullptr) return;
  last_algorithm = reinterpret_cast<const char* (*)()>(dlsym(offbeat_, "offbeat_last_algorithm"));
}

void* Below::find(const char* name) const {
  void* function = offbeat_ != nullptr ? dlsym(offbeat_, name) : nullptr;
  return function != nullptr ? function : host.find(name);
}

std::atomic<const Below*> what_is_below{nullptr};

const Below& find_what_is_below() {
  static std::mutex mutex;
  const std::lock_guard lock(mutex);
  const Below* found = what_is_below.load(std::memory_order_acquire);
  if (found != nullptr) return *found;
  try {
    found = new Below;  // lives until the process ends
  } catch (const UsageError& error) {
    if (launcher_rank() != 0) sleep(1);  // one rank speaks
    say(error.what());
    _exit(2);
  }
  what_is_below.store(found, std::memory_order_release);
  return *found;
}

}  // namespace offbeat::trace
