// SPDX-License-Identifier: BSD-3-Clause
// Prints lines on standard error, and makes user input safe to quote in them.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace offbeat {

// Returns `text` without anything that a terminal would obey. Bytes that are not a printable character of
// UTF-8 become \n, \x1b and so on. A text of more than `most_bytes` bytes is cut and ends in "...".
[[nodiscard]] std::string printable(std::string_view text, std::size_t most_bytes = 200);

// Prints one line on standard error with a single write, so that the lines of several ranks do not mix.
void say(std::string_view line);

}  // namespace offbeat
