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

bool CoreSet::is_subset_of(const CoreSet& other) const {
  cpu_set_t common;
  CPU_AND(&common, &set, &other.set);
  return CPU_EQUAL(&common, &set);
}

CoreSet union_of(std::span<const CoreSet> processes) {
  CoreSet all{};
  for (const CoreSet& each : processes) CPU_OR(&all.set, &all.set, &each.set);
  return all;
}

bool must_share_cores(std::span<const CoreSet> processes) {
  const auto is_crowded = [&](const CoreSet& cores) {
    return std::ranges::count_if(processes, [&](const CoreSet& each) { return each.is_subset_of(cores); }) >
           cores.count();
  };
  return is_crowded(union_of(processes)) || std::ranges::any_of(processes, is_crowded);
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
