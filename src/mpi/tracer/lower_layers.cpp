// SPDX-License-Identifier: BSD-3-Clause
#include "mpi/tracer/below.hpp"

#include <dlfcn.h>

#include <mutex>

#include "mpi/host/exit_with.hpp"
#include "mpi/host/other_family.hpp"

namespace offbeat::trace {
namespace {

template <class Function>
void find_next(Function*& function, const char* name) {
  function = reinterpret_cast<Function*>(dlsym(RTLD_NEXT, name));
}

}  // namespace

Below::Below() {
  find_next(last_algorithm_, "offbeat_last_algorithm");
  find_next(started_algorithm_, "offbeat_started_algorithm");
  find_next(observe_, "offbeat_observe");
}

std::atomic<const Below*> what_is_below{nullptr};

bool find_what_is_below_or_pass_on() {
  static std::mutex mutex;
  const std::lock_guard lock(mutex);
  if (other_family.load(std::memory_order_acquire) != nullptr) return false;
  if (what_is_below.load(std::memory_order_acquire) != nullptr) return true;
  try {
    what_is_below.store(new Below, std::memory_order_release);  // never destroyed
    return true;
  } catch (const OtherFamily& found) {
    pass_on_to(found);
    return false;
  } catch (const UsageError& error) {
    exit_with(error);
  }
}

}  // namespace offbeat::trace
