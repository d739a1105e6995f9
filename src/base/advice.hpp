// SPDX-License-Identifier: BSD-3-Clause
// What OFFBEAT_REPORT says beside counts: whether cores were overloaded, and what to type next.
#pragma once

#include <string>

#include "base/own_process.hpp"
#include "base/settings.hpp"

namespace offbeat {

// Returns a line about cores that were overloaded, or an empty one.
[[nodiscard]] std::string line_on_contention(const Contention& cores);

// Returns a line with the next command, for a job of `ranks` whose program is `words`, each ended by a zero.
[[nodiscard]] std::string line_on_next_command(const Settings& settings, int ranks, const std::string& words);

}  // namespace offbeat
