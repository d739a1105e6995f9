// SPDX-License-Identifier: BSD-3-Clause
// Which communicators are traced, as OFFBEAT_TRACE_COMMUNICATORS says.
#pragma once

#include <string_view>

namespace offbeat::trace {

// Returns true if the list `filter` contains a communicator of `ranks` ranks and this name. An empty list
// contains all. The list has, with commas between: `world`, for communicators that have all `world_ranks`
// ranks; numbers of ranks, N, N..M, N.. or ..M; and names.
[[nodiscard]] bool matches_communicator(std::string_view filter, int ranks, int world_ranks,
                                        std::string_view name);

}  // namespace offbeat::trace
