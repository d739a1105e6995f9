// SPDX-License-Identifier: BSD-3-Clause
// The long form of a bcast by arrival_direct, for many ranks. If all of them read the root's window, the
// root's core would deliver every line once for each rank. Instead, ranks pass chunks on (relay.hpp).
//
// A round uses the windows of the round before the last one. If that was a relayed bcast, only this rank's
// children in its tree have read this rank's window. So a rank looks at two signs, not at those of all ranks.
#pragma once

#include "collectives/algorithm.hpp"

namespace offbeat {

[[nodiscard]] Task relayed_bcast(Endpoint net, Call call, const Expression& self);

}  // namespace offbeat
