// SPDX-License-Identifier: BSD-3-Clause
// Reduce to rank 0, whose `output` holds the result. On other ranks `output` is used for partial results.
// Operands are combined in rank order.
#pragma once

#include "collectives/algorithm.hpp"

namespace offbeat::reduce_to_first {

// Rank 0 receives from every other rank in turn: (p-1)(a + nb + nc).
[[nodiscard]] Task linear(Endpoint net, Call call);

// A binomial tree: ceil(log2 p) (a + nb + nc).
[[nodiscard]] Task binomial(Endpoint net, Call call);

}  // namespace offbeat::reduce_to_first
