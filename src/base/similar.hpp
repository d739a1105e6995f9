// SPDX-License-Identifier: BSD-3-Clause
// Finds the known name that a user may have meant when a name is misspelt.
#pragma once

#include <cstddef>
#include <string_view>
#include <vector>

namespace offbeat {

// Returns how many characters must be changed, inserted or removed to turn one text into the other.
[[nodiscard]] std::size_t edit_distance(std::string_view a, std::string_view b);

// Returns the known name that is most similar to `name`, or an empty text if none is similar.
[[nodiscard]] std::string_view most_similar(std::string_view name,
                                            const std::vector<std::string_view>& known);

}  // namespace offbeat
