// SPDX-License-Identifier: BSD-3-Clause
// The algorithms of scan and exscan. Each algorithm serves both and looks at the collective of the call.
#pragma once

#include "collectives/repertoire.hpp"

namespace offbeat::scan_algorithms {

extern const Algorithm arrival_prefix;
extern const Algorithm chain;
extern const Algorithm recursive_doubling;

// Returns true in an exscan, in which a rank gets the prefix without its own vector, and rank 0 gets nothing.
[[nodiscard]] inline bool is_exclusive(const Call& call) { return call.collective == Collective::exscan; }

}  // namespace offbeat::scan_algorithms

namespace offbeat {

extern const Repertoire scan;
extern const Repertoire exscan;

}  // namespace offbeat
