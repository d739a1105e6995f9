// SPDX-License-Identifier: BSD-3-Clause
#include "mpi/tracer/below.hpp"

#include <dlfcn.h>

#include <mutex>

#include "mpi/exit_with.hpp"

namespace offbeat::trace {
Below::Below()
    : last_algorithm(reinterpret_cast<const char* (*)()>(dlsym(RTLD_NEXT, "offbeat_last_algorithm"))) {}

std::atomic<const Below*> what_is_below{nullptr};

const Below& find_what_is_below() {
  static std::mutex mutex;
  const std::lock_guard lock(mutex);
  const Below* found = what_is_below.load(std::memory_order_acquire);
  if (found != nullptr) return *found;
  try {
    found = new Below;  // lives until the process ends
  } catch (const UsageError& error) {
    exit_with(error);
  }
  what_is_below.store(found, std::memory_order_release);
  return *found;
}

}  // namespace offbeat::trace
