// SPDX-License-Identifier: BSD-3-Clause
// The name and the header of a rank's trace file (format.hpp), for the tracer of MPI and for groups.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "base/settings.hpp"
#include "trace/format.hpp"

namespace offbeat::trace {

// What the two tracers know about a rank in their own ways.
struct TracedRank {
  int rank;
  int ranks;
  std::uint64_t run;
  bool records;     // false if only other ranks record their calls
  bool is_partial;  // true if the rank does not record some of its calls
  std::string_view mpi;
  Clock clock;  // at the beginning
};

// Returns the path of a rank's file in a folder.
std::string rank_file_path(const std::string& folder, int rank);

// Fills in all but what changes later. The magic comes last, so that a file that has it has a whole header.
void fill_header(Header& header, const TracedRank& rank, const Settings& settings);

// Returns how much this process has had to share its cores so far, as a header has it.
Contention contention_so_far();

}  // namespace offbeat::trace
