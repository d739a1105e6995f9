// SPDX-License-Identifier: BSD-3-Clause
// Reduce-scatter: rank r ends with block r of the combined vector in its place in `output`; the other blocks
// of `output` hold partial results afterwards.
#pragma once

#include <cstddef>
#include <limits>

#include "collectives/algorithm.hpp"

namespace offbeat::reduce_scatter {

// The elements [first, first + length) of every block: what one pass over the ring carries.
struct Stripe {
  std::size_t first = 0;
  std::size_t length = std::numeric_limits<std::size_t>::max();
};

// p - 1 steps of n/p bytes. Block b travels b+1, b+2, ..., b and is combined in this order.
[[nodiscard]] Task ring(Endpoint net, Call call, Stripe stripe = {});

}  // namespace offbeat::reduce_scatter
