// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <algorithm>

namespace offbeat {

// A resource that serves one request after the other.
struct SimulatedPort {
  double free = 0;
  double pass(double begin, double seconds) {
    free = std::max(free, begin) + seconds;
    return free;
  }
};

}  // namespace offbeat
