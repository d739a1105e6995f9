// SPDX-License-Identifier: BSD-3-Clause
#include "node/cores.hpp"

#include <algorithm>
#include <climits>
#include <cstring>
#include <fstream>

namespace offbeat {

CoreSet CoreSet::of_this_process() {
  CoreSet cores;
  if (sched_getaffinity(0, sizeof cores.set, &cores.set) != 0)
    std::memset(&cores.set, 0xff, sizeof cores.set);
  return cores;
}

int CoreSet::first_not_in(const CoreSet& other) const {
  cpu_set_t common;
  CPU_AND(&common, &set, &other.set);
  CPU_XOR(&common, &common, &set);
  for (int core = 0; core < CPU_SETSIZE; ++core)
    if (CPU_ISSET(static_cast<unsigned>(core), &common)) return core;
  return -1;
}

// Sets that contain a smaller one contain all of its cores, so it does not matter which of them is taken.
int most_with_own_core(std::span<CoreSet> processes) {
  std::ranges::sort(processes, {}, &CoreSet::count);
  CoreSet taken{};
  for (const CoreSet& each : processes)
    if (const int core = each.first_not_in(taken); core >= 0)
      CPU_SET(static_cast<unsigned>(core), &taken.set);
  return taken.count();
}

int core_quota(const char* file) {
  std::ifstream text(file);
  long quota_us = 0;
  long period_us = 0;
  // The file contains "max" instead of a number if there is no limit.
  if (!(text >> quota_us >> period_us) || period_us <= 0) return INT_MAX;
  return static_cast<int>(std::clamp<long>((quota_us - 1) / period_us + 1, 1, INT_MAX));
}

}  // namespace offbeat
