// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <cstddef>
#include <string>

namespace offbeat {

// Reads a regular file of at most `most_mib` MiB. Throws UsageError, whose text names the file.
[[nodiscard]] std::string read_text_file(const std::string& path, std::size_t most_mib);

}  // namespace offbeat
