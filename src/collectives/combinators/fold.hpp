// SPDX-License-Identifier: BSD-3-Clause
// Folding: run an allreduce that wants a convenient number of ranks on any number of them.
#pragma once

#include "collectives/algorithm.hpp"

namespace offbeat {

// The ranks form `core` contiguous groups of nearly equal size. Each group's first rank combines the inputs
// of its group in rank order, the `core` first ranks run `run`, and hand the result to their groups.
// Cost beside `run`: 2(a + nb) + nc for each further rank of a group.
[[nodiscard]] Task folded(Endpoint net, Call call, const Expression& self, int core,
                          Task (*run)(Endpoint, Call, const Expression&));

}  // namespace offbeat
