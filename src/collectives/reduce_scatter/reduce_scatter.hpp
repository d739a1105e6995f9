// SPDX-License-Identifier: BSD-3-Clause
// The algorithms of reduce_scatter and reduce_scatter_block.
#pragma once

#include "collectives/repertoire.hpp"

namespace offbeat::reduce_scatter_algorithms {

extern const Algorithm arrival_shares;
extern const Algorithm ring;
extern const Algorithm recursive_halving;
extern const Algorithm recursive_splitting;
extern const Algorithm pairwise;

}  // namespace offbeat::reduce_scatter_algorithms

// Reduces and scatters a part of every block.
namespace offbeat::striped_reduce_scatter {

// Passes partial results to the right in p - 1 steps. Block b goes from rank b+1 to b+2 and so on, up to rank
// b, and is combined in this order.
[[nodiscard]] Task ring(Endpoint net, Call call, Stripe stripe = {});

}  // namespace offbeat::striped_reduce_scatter

namespace offbeat {

extern const Repertoire reduce_scatter;
extern const Repertoire reduce_scatter_block;

}  // namespace offbeat
