// SPDX-License-Identifier: BSD-3-Clause
// The algorithms of alltoall and alltoallv.
#pragma once

#include "collectives/repertoire.hpp"

namespace offbeat::alltoall_algorithms {

extern const Algorithm pairwise;
extern const Algorithm bruck;
extern const Algorithm linear;

// Steps `first`, `first` + `stride`, ... of p: in step 0 a rank copies its own block, in each other step it
// sends its block for one rank and receives the block of one. In an allgather its block is the same for all.
[[nodiscard]] Task steps(Endpoint net, Call call, int first, int stride);

}  // namespace offbeat::alltoall_algorithms

namespace offbeat {

extern const Repertoire alltoall;
extern const Repertoire alltoallv;

}  // namespace offbeat
