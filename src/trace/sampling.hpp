// SPDX-License-Identifier: BSD-3-Clause
// Which calls a trace records that has only one in so many.
#pragma once

#include <cstdint>

namespace offbeat {

// Returns true if a trace of one in `every` calls of a communicator has the call with this number, counted
// from 0. Of each `every` calls in a row it has one, at a place that a hash chooses: a program that does
// something before every tenth call would otherwise do so before all of them, or before none. Equal on all
// ranks.
[[nodiscard]] constexpr bool is_sampled(std::uint64_t number, std::uint64_t every) {
  if (every == 1) return true;
  const std::uint64_t row = number / every;
  return number % every == (row * 0x9e37'79b9'7f4a'7c15 >> 32) % every;
}

}  // namespace offbeat
