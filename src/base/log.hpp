// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <unistd.h>

#include <string>

namespace offbeat {

// One line on standard error, written at once so that ranks do not mix.
inline void say(const std::string& line) {
  const std::string text = "offbeat: " + line + "\n";
  static_cast<void>(!write(STDERR_FILENO, text.data(), text.size()));
}

}  // namespace offbeat
