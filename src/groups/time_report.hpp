// SPDX-License-Identifier: BSD-3-Clause
// What OFFBEAT_REPORT says about the time of collectives, from the counters of all ranks of this node.
#pragma once

#include <string>
#include <vector>

#include "node/call_counters.hpp"

namespace offbeat {

// The time of the collectives of some ranks, in nanoseconds of all of them together.
struct TimeInCollectives {
  int ranks = 0;
  std::int64_t elapsed_ns = 0;
  std::int64_t inside_ns = 0;
  std::int64_t waiting_ns = 0;
  std::uint64_t waits = 0;  // for which it is known who came last
  int late_rank = -1;       // for which the others waited longest; -1: none
  std::uint64_t waits_for_late_rank = 0;
  std::int64_t waiting_ns_for_late_rank = 0;
};

[[nodiscard]] TimeInCollectives time_in_collectives(const CounterFile& counters);

// Returns lines that say it in words. `space` follows the number of a rank: " of MPI_COMM_WORLD".
[[nodiscard]] std::vector<std::string> lines_on_time(const TimeInCollectives& time, std::string_view space);

}  // namespace offbeat
