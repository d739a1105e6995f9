// SPDX-License-Identifier: BSD-3-Clause
// An exchange as a task, for steps in which a rank exchanges with several others at once
// (Endpoint::concurrently).
#pragma once

#include "transport/endpoint.hpp"

namespace offbeat {

[[nodiscard]] inline Task exchange(Endpoint net, int to, ConstVector mine, int from, Vector theirs) {
  co_await net.exchange(to, mine, from, theirs);
}

}  // namespace offbeat
