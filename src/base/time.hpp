// SPDX-License-Identifier: BSD-3-Clause
// Times of this node, in whole nanoseconds. They are integers because waits measure them at any moment of the
// program, which may trap whatever rounds (base/own_floating_point.hpp).
#pragma once

#include <time.h>

#include <algorithm>
#include <bit>
#include <cstdint>
#include <limits>
#include <string>

namespace offbeat {

inline constexpr std::int64_t ns_per_us = 1'000;
inline constexpr std::int64_t ns_per_ms = 1'000'000;
inline constexpr std::int64_t ns_per_s = 1'000'000'000;

[[nodiscard]] constexpr std::int64_t to_ns(const timespec& time) {
  return static_cast<std::int64_t>(time.tv_sec) * ns_per_s + time.tv_nsec;
}

[[nodiscard]] inline std::int64_t monotonic_ns() {
  timespec now{};
  clock_gettime(CLOCK_MONOTONIC, &now);
  return to_ns(now);
}

// Returns `seconds`, which must be positive, in nanoseconds: at least 1, and 146 years for 2^33 s or more.
[[nodiscard]] constexpr std::int64_t positive_seconds_to_ns(double seconds) {
  static_assert(std::numeric_limits<double>::is_iec559 && std::numeric_limits<double>::digits == 53);
  constexpr int fraction_bits = 30;
  constexpr std::uint64_t hidden_bit = std::uint64_t{1} << 52;
  const auto bits = std::bit_cast<std::uint64_t>(seconds);
  const std::uint64_t mantissa = (bits & (hidden_bit - 1)) | hidden_bit;
  const int shift = static_cast<int>(bits >> 52) - 1075 + fraction_bits;
  if (shift > 10) return std::numeric_limits<std::int64_t>::max() / 2;
  const std::uint64_t fixed = shift >= 0 ? mantissa << shift : shift > -64 ? mantissa >> -shift : 0;
  const std::uint64_t fraction = fixed & ((std::uint64_t{1} << fraction_bits) - 1);
  const std::uint64_t ns = (fixed >> fraction_bits) * ns_per_s + (fraction * ns_per_s >> fraction_bits);
  return std::max<std::int64_t>(1, static_cast<std::int64_t>(ns));
}

// Returns a time in whole seconds, such as "12 s".
[[nodiscard]] inline std::string seconds_text(std::int64_t ns) {
  return std::to_string((ns + ns_per_s / 2) / ns_per_s) + " s";
}

}  // namespace offbeat
