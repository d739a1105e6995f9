// SPDX-License-Identifier: BSD-3-Clause
// The algorithms of alltoall and alltoallv.
#pragma once

#include "collectives/repertoire.hpp"

namespace offbeat::alltoall_algorithms {

extern const Algorithm pairwise;
extern const Algorithm bruck;
extern const Algorithm k_bruck;
extern const Algorithm linear;

// Runs steps `first`, `first` + `stride` and so on, out of p steps. In step 0 a rank copies its own block. In
// each other step it sends its block for one rank and receives the block of another. In an allgather a rank
// sends the same block in all steps.
[[nodiscard]] Task run_steps(Endpoint net, Call call, int first, int stride);

}  // namespace offbeat::alltoall_algorithms

namespace offbeat {

extern const Repertoire alltoall;
extern const Repertoire alltoallv;

}  // namespace offbeat
