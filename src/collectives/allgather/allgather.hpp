// SPDX-License-Identifier: BSD-3-Clause
// Allgather: rank r contributes block r of `data`, and ends with all blocks.
#pragma once

#include "transport/endpoint.hpp"

namespace offbeat::allgather {

// p - 1 steps of n/p bytes: (p-1)(a + n/p b).
[[nodiscard]] Task ring(Endpoint net, Vector data);

}  // namespace offbeat::allgather
