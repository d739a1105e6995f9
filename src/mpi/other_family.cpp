// SPDX-License-Identifier: BSD-3-Clause
#include "mpi/other_family.hpp"

#include <dlfcn.h>

#include <string>
#include <string_view>

#include "base/log.hpp"
#include "base/settings.hpp"

namespace offbeat {

std::atomic<void*> other_family{nullptr};

void pass_on_to(const OtherFamily& found) {
  other_family.store(found.library, std::memory_order_release);
  if (launcher_rank(found.family) == 0) say(std::string(found.what()) + "; all calls go to that MPI");
}

void* behind_in_other_family(const char* name) {
  if (void* next = Host::next(name)) return next;
  const std::string profiled = name[0] == 'P' ? name : 'P' + std::string(name);
  return dlsym(other_family.load(std::memory_order_acquire), profiled.c_str());
}

void* narrow_in_other_family(const char* name) {
  const std::string_view large(name);
  if (!large.ends_with("_c")) return nullptr;
  return behind_in_other_family(std::string(large.substr(0, large.size() - 2)).c_str());
}

}  // namespace offbeat
