// SPDX-License-Identifier: BSD-3-Clause
// Writes the calls of collectives in groups to the trace file of this process (OFFBEAT_TRACE). It has the
// format of a rank of MPI. Its world is the first group.
#pragma once

#include "groups/group_observer.hpp"

namespace offbeat::trace {

// Returns the observer that writes the trace. It opens the file when the first group is made.
[[nodiscard]] GroupObserver& group_trace();

}  // namespace offbeat::trace
