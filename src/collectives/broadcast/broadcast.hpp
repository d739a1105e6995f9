// SPDX-License-Identifier: BSD-3-Clause
// Broadcast of `data` from rank 0.
#pragma once

#include "transport/endpoint.hpp"

namespace offbeat::broadcast_from_first {

// Rank 0 sends to every other rank in turn: (p-1)(a + nb).
[[nodiscard]] Task linear(Endpoint net, Vector data);

// A binomial tree: ceil(log2 p) (a + nb).
[[nodiscard]] Task binomial(Endpoint net, Vector data);

}  // namespace offbeat::broadcast_from_first
