// SPDX-License-Identifier: BSD-3-Clause
// The broadcast algorithms.
#pragma once

#include "collectives/repertoire.hpp"

// These broadcast `output` from rank 0.
namespace offbeat::bcast_from_rank_0 {

// Rank 0 sends to every other rank in turn: (p-1)(a + nb).
[[nodiscard]] Task linear(Endpoint net, Call call);

// A binomial tree: ceil(log2 p) (a + nb).
[[nodiscard]] Task binomial(Endpoint net, Call call);

}  // namespace offbeat::bcast_from_rank_0

namespace offbeat::bcast_algorithms {

extern const Algorithm linear;
extern const Algorithm binomial;
extern const Algorithm knomial;
extern const Algorithm chain;
extern const Algorithm scatter_allgather;

}  // namespace offbeat::bcast_algorithms

namespace offbeat {

extern const Repertoire bcast;

}  // namespace offbeat
