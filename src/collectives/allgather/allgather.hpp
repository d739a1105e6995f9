// SPDX-License-Identifier: BSD-3-Clause
// The algorithms of allgather and allgatherv.
#pragma once

#include "collectives/repertoire.hpp"

namespace offbeat::allgather_algorithms {

extern const Algorithm ring;
extern const Algorithm recursive_doubling;
extern const Algorithm bruck;
extern const Algorithm k_bruck;
extern const Algorithm neighbor_exchange;

}  // namespace offbeat::allgather_algorithms

// Rank r contributes block r of `data`, and ends with all blocks.
namespace offbeat::allgather_in_place {

// Every rank passes blocks to the right in p - 1 steps. Cost: (p-1)(a + mb), m bytes in a block.
[[nodiscard]] Task ring(Endpoint net, Vector data, BlockList blocks = {});

}  // namespace offbeat::allgather_in_place

namespace offbeat {

extern const Repertoire allgather;
extern const Repertoire allgatherv;

}  // namespace offbeat
