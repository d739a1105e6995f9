// SPDX-License-Identifier: BSD-3-Clause
// A global time for ranks on several hosts: each rank has a model that converts its own clock to it.
#pragma once

#include <cmath>
#include <cstdint>
#include <string_view>

#include "base/own_floating_point.hpp"
#include "base/time.hpp"

namespace offbeat::clock {

using Nanoseconds = std::int64_t;

// Returns this rank's own time. CLOCK_MONOTONIC is one clock for all processes of a host.
inline Nanoseconds now() { return monotonic_ns(); }

// Where a rank has its model of the global time from: a clock that all ranks share, or a measurement.
// docs/reference/trace-format.md lists these numbers.
enum class Source : std::uint32_t { none = 0, shared = 1, offset = 2, hca3 = 3 };

[[nodiscard]] constexpr std::string_view name_of(Source source) {
  switch (source) {
    case Source::none:
      return "none";
    case Source::shared:
      return "shared";
    case Source::offset:
      return "offset";
    case Source::hca3:
      return "HCA3";
  }
  return "none";
}

// Converts a rank's own time to the time of rank 0's clock, and back.
struct Model {
  Source source = Source::none;
  Nanoseconds at = 0;  // own time of the synchronisation
  Nanoseconds offset = 0;
  double slope = 0;
  double residual_ns = 0;  // error that a later measurement found, in ns
  double bound_ns = 0;     // the error cannot be larger, whatever the two directions take, in ns

  [[nodiscard]] Nanoseconds to_global(Nanoseconds own) const {
    return own + offset + std::llround(slope * static_cast<double>(own - at));
  }
  [[nodiscard]] Nanoseconds to_local(Nanoseconds global) const {
    const auto since = static_cast<double>(global - offset - at);
    return at + std::llround(since / (1 + slope));
  }
};

// Improves two models that one rank got at the ends of a long time span. One synchronisation lasts
// milliseconds only, so both get the slope of the line through their offsets.
inline void share_slope(Model& begin, Model& end) {
  if (begin.source == Source::none || end.source == Source::none || end.at <= begin.at) return;
  const OwnFloatingPoint own;
  const auto offsets = static_cast<double>(end.offset - begin.offset);
  begin.slope = end.slope = offsets / static_cast<double>(end.at - begin.at);
}

}  // namespace offbeat::clock
