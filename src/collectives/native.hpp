// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include "collectives/algorithm.hpp"

namespace offbeat {

// The host MPI's own choice for every collective: the baseline, the fallback and the oracle.
extern const Algorithm native;

// The collectives of one vector, which a host can be given segment by segment.
inline constexpr Collectives taken_in_segments{Collective::allreduce, Collective::bcast, Collective::reduce};

}  // namespace offbeat
