// SPDX-License-Identifier: BSD-3-Clause
// One time for ranks on several hosts.
#pragma once

#include <time.h>

#include <cmath>
#include <cstdint>
#include <string_view>

namespace offbeat::clock {

using Nanoseconds = std::int64_t;

// A rank's own clock: CLOCK_MONOTONIC is one clock for all processes of a host.
inline Nanoseconds now() {
  timespec time{};
  clock_gettime(CLOCK_MONOTONIC, &time);
  return static_cast<Nanoseconds>(time.tv_sec) * 1'000'000'000 + time.tv_nsec;
}

// How a rank came to know the global time. The numbers are those of docs/trace-format.md.
enum class Kind : std::uint32_t { none = 0, shared = 1, offset = 2, hca3 = 3 };

[[nodiscard]] constexpr std::string_view name_of(Kind kind) {
  switch (kind) {
    case Kind::none:
      return "none";
    case Kind::shared:
      return "shared";
    case Kind::offset:
      return "offset";
    case Kind::hca3:
      return "HCA3";
  }
  return "none";
}

// From a rank's own clock to that of rank 0.
struct Model {
  Kind kind = Kind::none;
  Nanoseconds at = 0;  // own time of the synchronisation
  Nanoseconds offset = 0;
  double slope = 0;
  double residual_ns = 0;  // what a later measurement found this model to be wrong by
  double bound_ns = 0;     // it is not wrong by more, however much longer one direction takes

  [[nodiscard]] Nanoseconds global(Nanoseconds own) const {
    return own + offset + std::llround(slope * static_cast<double>(own - at));
  }
  [[nodiscard]] Nanoseconds own(Nanoseconds global) const {
    const auto since = static_cast<double>(global - offset - at);
    return at + std::llround(since / (1 + slope));
  }
};

// Two synchronisations of one rank at the ends of a long time say more about the slope than each of them,
// which lasts milliseconds: both get the slope of the line through their offsets.
inline void join(Model& begin, Model& end) {
  if (begin.kind == Kind::none || end.kind == Kind::none || end.at <= begin.at) return;
  const auto offsets = static_cast<double>(end.offset - begin.offset);
  begin.slope = end.slope = offsets / static_cast<double>(end.at - begin.at);
}

}  // namespace offbeat::clock
