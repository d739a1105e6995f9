// SPDX-License-Identifier: BSD-3-Clause
// Lines on standard error, and user input made fit to be quoted in an error.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace offbeat {

// `text` without anything that a terminal obeys: what is no printable character of UTF-8 becomes \n, \x1b and
// the like. What is longer than `most_bytes` then ends in "...".
[[nodiscard]] std::string printable(std::string_view text, std::size_t most_bytes = 200);

// One line on standard error, written at once so that ranks do not mix.
void say(std::string_view line);

}  // namespace offbeat
