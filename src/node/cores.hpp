// SPDX-License-Identifier: BSD-3-Clause
// Do the ranks of a node have a core each?
#pragma once

#include <sched.h>

#include <span>

namespace offbeat {

// The cores on which a process may run; plain data, for other ranks to read.
struct CoreSet {
  cpu_set_t set;

  // All cores if the system does not say.
  static CoreSet of_this_process();
  [[nodiscard]] int count() const { return CPU_COUNT(&set); }
  [[nodiscard]] bool within(const CoreSet& other) const;
};

// All cores on which any of them may run.
[[nodiscard]] CoreSet together(std::span<const CoreSet> processes);

// Whether more of these processes are confined to a set of cores than it has: to the cores of all of them, or
// of one of them. That is exact for the sets that launchers make, which are nested or disjoint.
[[nodiscard]] bool must_share_cores(std::span<const CoreSet> processes);

// The CPU time that the control group is given, as a container sees it, in cores; INT_MAX: no limit.
[[nodiscard]] int core_quota(const char* file = "/sys/fs/cgroup/cpu.max");

}  // namespace offbeat
