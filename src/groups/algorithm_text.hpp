// SPDX-License-Identifier: BSD-3-Clause
#pragma once

namespace offbeat {

struct Expression;

// Returns the text of an expression that a call has run, or null for null. The text lives as long as the
// process, and an expression always has the same address for it.
[[nodiscard]] const char* algorithm_text(const Expression* ran);

}  // namespace offbeat
