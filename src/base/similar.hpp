// SPDX-License-Identifier: BSD-3-Clause
// Finds the known name that a user may have meant.
#pragma once

#include <cstddef>
#include <string_view>
#include <vector>

namespace offbeat {

// The number of characters to change, insert or remove to turn one text into the other.
[[nodiscard]] std::size_t edit_distance(std::string_view a, std::string_view b);

// Returns the known name that is most like `name`, or an empty one if none is similar.
[[nodiscard]] std::string_view most_similar(std::string_view name,
                                            const std::vector<std::string_view>& known);

}  // namespace offbeat
