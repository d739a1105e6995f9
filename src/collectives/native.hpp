// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include "collectives/algorithm.hpp"

namespace offbeat {

// `native` stands for the host MPI's own collective. It is the baseline, the fallback and the reference for
// results.
extern const Algorithm native;

// The collectives that the host can run segment by segment, because each rank has one vector.
inline constexpr Collectives segmentable_by_host{Collective::allreduce, Collective::bcast,
                                                 Collective::reduce};

}  // namespace offbeat
