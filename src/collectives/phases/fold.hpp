// SPDX-License-Identifier: BSD-3-Clause
// Folding: runs an allreduce, or a reduce to rank 0, that needs a convenient number of ranks on any number of
// them.
#pragma once

#include "collectives/algorithm.hpp"

namespace offbeat {

// The ranks form `core` contiguous groups of nearly equal size. The first rank of each group combines the
// inputs of its group in rank order. These `core` ranks run `run`; in an allreduce they send the result to
// their groups.
// Cost besides `run`, for each further rank of a group: a + nb + nc; in an allreduce another a + nb.
[[nodiscard]] Task run_folded(Endpoint net, Call call, const Expression& self, int core,
                              Task (*run)(Endpoint, Call, const Expression&));

// Folds to the largest power of two of groups. If the number of ranks is a power of two, only `run` runs.
[[nodiscard]] Task run_folded_to_power_of_two(Endpoint net, Call call, const Expression& self,
                                              Task (*run)(Endpoint, Call, const Expression&));

}  // namespace offbeat
