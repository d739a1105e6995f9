// SPDX-License-Identifier: BSD-3-Clause
// The algorithms of reduce_scatter and reduce_scatter_block.
#pragma once

#include "collectives/repertoire.hpp"

namespace offbeat::reduce_scatter_algorithms {

extern const Algorithm ring;
extern const Algorithm recursive_halving;
extern const Algorithm pairwise;

}  // namespace offbeat::reduce_scatter_algorithms

// Reduce-scatter of a part of every block.
namespace offbeat::striped_reduce_scatter {

// p - 1 steps of a block. Block b travels b+1, b+2, ..., b and is combined in this order.
[[nodiscard]] Task ring(Endpoint net, Call call, Stripe stripe = {});

}  // namespace offbeat::striped_reduce_scatter

namespace offbeat {

extern const Repertoire reduce_scatter;
extern const Repertoire reduce_scatter_block;

}  // namespace offbeat
