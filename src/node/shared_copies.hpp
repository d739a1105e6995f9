// SPDX-License-Identifier: BSD-3-Clause
// Copies into a window, in the way that costs less where the ranks are.
//
// A copy into lines that another core has read last must first take them away from it. Between cores of one
// complex that takes some 7 ns a line (AMD Zen 4), between cores of two, 30. copy_past_cache() takes 2 there,
// and the reader fetches the lines from memory, about as fast as from a far core. Where ranks are is not
// known and may change on a virtual machine, and what a line costs depends on who did what with it before. So
// a rank now and then measures its own copies. benchmark_lines shows all of this.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>

#include "base/copy.hpp"

namespace offbeat {

// The two ways to copy, and a clock; tests have others.
struct CopyWays {
  void (*to_shared)(void* to, const void* from, std::size_t bytes) = copy_to_shared;
  void (*past_cache)(void* to, const void* from, std::size_t bytes) = copy_past_cache;
  std::int64_t (*now_ns)() = [] {
    return std::int64_t{
        std::chrono::nanoseconds(std::chrono::steady_clock::now().time_since_epoch()).count()};
  };
};

// Of one rank, for one collective. One thread at a time may use it.
class SharedCopies {
 public:
  void copy(void* to, const void* from, std::size_t bytes, const CopyWays& ways = {}) {
    if (bytes < shortest_bytes) return ways.to_shared(to, from, bytes);
    if (unmeasured_ > 0) {
      --unmeasured_;
      return (goes_past_cache_ ? ways.past_cache : ways.to_shared)(to, from, bytes);
    }
    measure(to, from, bytes, ways);
  }

 private:
  // Shorter copies are not worth two looks at the clock.
  static constexpr std::size_t shortest_bytes = 2048;

  void measure(void* to, const void* from, std::size_t bytes, const CopyWays& ways);
  // The next copies go there without a measurement.
  void choose(bool past_cache, std::uint8_t copies) {
    goes_past_cache_ = past_cache;
    unmeasured_ = copies;
  }

  double to_shared_ns_ = 0;  // of a line, when last measured
  std::uint8_t unmeasured_ = 0;
  bool goes_past_cache_ = false;
  bool was_dear_ = false;  // the last one measured
  bool tries_the_other_ = false;
};

}  // namespace offbeat
