// SPDX-License-Identifier: BSD-3-Clause
// Do the ranks of a node have a core each?
#pragma once

#include <sched.h>

#include <span>

namespace offbeat {

// The cores on which a process may run; plain data, for other ranks to read.
struct CoreSet {
  cpu_set_t set;

  // All cores, where the system does not say.
  static CoreSet of_this_process();
  [[nodiscard]] int count() const { return CPU_COUNT(&set); }
  [[nodiscard]] bool within(const CoreSet& other) const;
};

// All that they may run on together.
[[nodiscard]] CoreSet together(std::span<const CoreSet> processes);

// Whether more of these processes are confined to some cores than there are of them: to all that they may use
// together, or to those of one of them. That is exact for what launchers do, sets that are nested or apart.
[[nodiscard]] bool must_share_cores(std::span<const CoreSet> processes);

// As many cores as the CPU time that the control group is given, as a container sees it; INT_MAX: no limit.
[[nodiscard]] int core_quota(const char* file = "/sys/fs/cgroup/cpu.max");

}  // namespace offbeat
