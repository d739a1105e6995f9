// SPDX-License-Identifier: BSD-3-Clause
// Lines on standard error, and user input made fit to be quoted in an error.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace offbeat {

// `text` without anything that a terminal obeys: bytes that are not a printable character of UTF-8 become \n,
// \x1b and the like. A text of more than `most_bytes` is cut and ends in "...".
[[nodiscard]] std::string printable(std::string_view text, std::size_t most_bytes = 200);

// One line on standard error, written at once so that ranks do not mix.
void say(std::string_view line);

}  // namespace offbeat
