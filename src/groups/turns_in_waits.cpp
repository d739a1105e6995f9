// SPDX-License-Identifier: BSD-3-Clause
// A library that a program may load with dlopen is linked with this file.
#include "node/host_turns.hpp"

namespace offbeat::turns_in_waits {

bool are_due() { return TurnDueOf<ProcessorClock, DynamicThreadLocal<ProcessorClock>>::is_due(); }

bool are_due_in_spin() {
  return TurnDueOf<ProcessorClock, DynamicThreadLocal<ProcessorClock>>::is_due_in_spin();
}

void give(const TurnCall& turn) { TurnDueOf<ProcessorClock, DynamicThreadLocal<ProcessorClock>>::give(turn); }

}  // namespace offbeat::turns_in_waits
