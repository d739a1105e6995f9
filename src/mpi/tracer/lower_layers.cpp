// SPDX-License-Identifier: BSD-3-Clause
#include "mpi/tracer/lower_layers.hpp"

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

LowerLayers::LowerLayers() {
  find_next(last_algorithm_, "offbeat_last_algorithm");
  find_next(started_algorithm_, "offbeat_started_algorithm");
  find_next(observe_, "offbeat_observe");
}

std::atomic<const LowerLayers*> known_lower_layers{nullptr};

bool find_lower_layers_or_pass_on() {
  static std::mutex mutex;
  const std::lock_guard lock(mutex);
  if (other_family.load(std::memory_order_acquire) != nullptr) return false;
  if (known_lower_layers.load(std::memory_order_acquire) != nullptr) return true;
  try {
    known_lower_layers.store(new LowerLayers, std::memory_order_release);  // never destroyed
    return true;
  } catch (const OtherFamily& found) {
    pass_on_to(found);
    return false;
  } catch (const UsageError& error) {
    exit_with(error);
  }
}

}  // namespace offbeat::trace
