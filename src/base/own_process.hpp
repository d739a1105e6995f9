// SPDX-License-Identifier: BSD-3-Clause
// What the kernel says about this process.
#pragma once

#include <cstdint>
#include <string>

namespace offbeat {

// How much a process had to share its cores, since it began. Zeros: not known.
struct Contention {
  std::int64_t ran_ns;       // of its first thread
  std::int64_t waited_ns;    // its first thread could run, but had no core
  std::int64_t preemptions;  // of all its threads
};

[[nodiscard]] Contention contention();

// Returns the program and its arguments, with `separator` between them.
[[nodiscard]] std::string program_line(char separator = ' ');

}  // namespace offbeat
