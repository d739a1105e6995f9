// SPDX-License-Identifier: BSD-3-Clause
// Counts says how many calls of a collective a program has made, and how many of them offbeat has served.
#pragma once

#include <cstdint>

namespace offbeat {

struct Counts {
  std::uint64_t intercepted = 0;
  std::uint64_t served = 0;

  Counts& operator+=(const Counts& other) {
    intercepted += other.intercepted;
    served += other.served;
    return *this;
  }
};

}  // namespace offbeat
