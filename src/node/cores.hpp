// SPDX-License-Identifier: BSD-3-Clause
// Finds out whether each rank of a node has a core of its own.
#pragma once

#include <sched.h>

#include <span>

namespace offbeat {

// The cores on which a process may run. It is plain data that other ranks can read.
struct CoreSet {
  cpu_set_t set;

  // Returns the affinity mask of this process, or all cores if the system call fails.
  static CoreSet of_this_process();
  [[nodiscard]] int count() const { return CPU_COUNT(&set); }
  [[nodiscard]] bool is_subset_of(const CoreSet& other) const;
};

// Returns the cores on which at least one of the processes may run.
[[nodiscard]] CoreSet union_of(std::span<const CoreSet> processes);

// Returns true if more of these processes are confined to a set of cores than it has cores. Sets that are
// tried are the cores of each process and the cores of all of them together. This is exact for the sets that
// launchers make, which are nested or disjoint.
[[nodiscard]] bool must_share_cores(std::span<const CoreSet> processes);

// Returns the CPU time that the control group (such as a container) may use, in cores. INT_MAX means no
// limit.
[[nodiscard]] int core_quota(const char* file = "/sys/fs/cgroup/cpu.max");

}  // namespace offbeat
