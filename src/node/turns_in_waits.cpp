// SPDX-License-Identifier: BSD-3-Clause
#include "node/host_turns.hpp"

namespace offbeat::turns_in_waits {

bool are_due() { return TurnDue::is_due(); }

bool are_due_in_spin() { return TurnDue::is_due_in_spin(); }

void give(const TurnCall& turn) { TurnDue::give(turn); }

}  // namespace offbeat::turns_in_waits
