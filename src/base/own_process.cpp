// SPDX-License-Identifier: BSD-3-Clause
#include "base/own_process.hpp"

#include <sys/resource.h>

#include <algorithm>
#include <fstream>
#include <iterator>

namespace offbeat {

Contention contention() {
  rusage used{};
  getrusage(RUSAGE_SELF, &used);
  Contention found{0, 0, used.ru_nivcsw};
  std::ifstream file("/proc/self/schedstat");  // only some kernels have it
  if (!(file >> found.ran_ns >> found.waited_ns)) found.ran_ns = found.waited_ns = 0;
  return found;
}

std::string program_line(char separator) {
  std::ifstream file("/proc/self/cmdline");
  std::string line{std::istreambuf_iterator<char>(file), {}};
  while (!line.empty() && line.back() == '\0') line.pop_back();
  std::ranges::replace(line, '\0', separator);
  return line;
}

}  // namespace offbeat
