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
  // Returns the lowest core that is only in this set, or -1.
  [[nodiscard]] int first_not_in(const CoreSet& other) const;
};

// Returns how many of these processes can have a core of their own at the same time. Each one, from the
// smallest set to the largest, takes a core that is still free. This is exact for the sets that launchers
// make, which are nested or disjoint, and may be too low for others. Sorts the processes.
[[nodiscard]] int most_with_own_core(std::span<CoreSet> processes);

// Returns the CPU time that the control group (such as a container) may use, in cores. INT_MAX means no
// limit.
[[nodiscard]] int core_quota(const char* file = "/sys/fs/cgroup/cpu.max");

}  // namespace offbeat
