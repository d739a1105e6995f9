// SPDX-License-Identifier: BSD-3-Clause
// The long form of bcast by arrival_direct for many ranks: if all of them read the root's window, the root's
// core would hand over every line as often as there are ranks. So ranks pass chunks on (relay.hpp).
//
// A round uses the windows of the one before the last. Who read this rank's window then are its children in
// the tree of that round, if it was one of these; so a rank looks at two signs, not at those of all.
#pragma once

#include "collectives/algorithm.hpp"

namespace offbeat {

[[nodiscard]] Task relayed_bcast(Endpoint net, Call call, const Expression& self);

}  // namespace offbeat
