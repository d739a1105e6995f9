// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <string>
#include <string_view>

namespace offbeat {

struct SourceLine {
  std::string function;  // these are empty if they are not known
  std::string file;
  std::string line;
};

// Returns the function and the line of an address in a file, such as "0x1234", by the program addr2line. All
// is unknown if there is none. It takes milliseconds, at most two seconds.
[[nodiscard]] SourceLine source_line(std::string_view file, std::string_view address);

}  // namespace offbeat
