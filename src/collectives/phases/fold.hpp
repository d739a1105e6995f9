// SPDX-License-Identifier: BSD-3-Clause
// Folding: runs an allreduce, or a reduce to rank 0, that needs a convenient number of ranks on any number of
// them.
#pragma once

#include "collectives/algorithm.hpp"

namespace offbeat {

// The ranks form `core` contiguous groups of nearly equal size. Each group's first rank combines the inputs
// of its group in rank order. These `core` ranks run `run`, and in an allreduce hand the result to their
// groups. Cost beside `run`, for each further rank of a group: a + nb + nc, and in an allreduce another a +
// nb.
[[nodiscard]] Task folded(Endpoint net, Call call, const Expression& self, int core,
                          Task (*run)(Endpoint, Call, const Expression&));

// The same with as many groups as the largest power of two that fits; nothing where that is all ranks.
[[nodiscard]] Task folded_to_power_of_two(Endpoint net, Call call, const Expression& self,
                                          Task (*run)(Endpoint, Call, const Expression&));

}  // namespace offbeat
