// SPDX-License-Identifier: BSD-3-Clause
// Copies into a window in the way that costs less on the cores where the ranks run.
//
// A copy into lines that another core has read last must first take them away from that core. This takes some
// 7 ns per line between cores of one complex (AMD Zen 4), and 30 ns between two complexes. copy_past_cache()
// takes 2 ns in the second case. The reader then fetches the lines from memory, which is about as fast as
// from a far core. Where ranks run is not known and may change on a virtual machine, and the cost of a line
// depends on what other cores did with it before. So a rank measures some of its own copies. benchmark_lines
// shows all of this.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>

#include "base/copy.hpp"

namespace offbeat {

// The two ways to copy, and a clock. Tests replace them.
struct CopyFunctions {
  void (*to_shared)(void* to, const void* from, std::size_t bytes) = copy_to_shared;
  void (*past_cache)(void* to, const void* from, std::size_t bytes) = copy_past_cache;
  std::int64_t (*now_ns)() = [] {
    return std::int64_t{
        std::chrono::nanoseconds(std::chrono::steady_clock::now().time_since_epoch()).count()};
  };
};

// Chooses the way for the copies of one rank in one collective. Only one thread at a time may use it.
class SharedCopies {
 public:
  void copy(void* to, const void* from, std::size_t bytes, const CopyFunctions& ways = {}) {
    if (bytes < shortest_measured_bytes) return ways.to_shared(to, from, bytes);
    if (unmeasured_copies_ > 0) {
      --unmeasured_copies_;
      return (goes_past_cache_ ? ways.past_cache : ways.to_shared)(to, from, bytes);
    }
    measure(to, from, bytes, ways);
  }

 private:
  // A copy of fewer bytes is not worth reading the clock twice.
  static constexpr std::size_t shortest_measured_bytes = 2048;

  void measure(void* to, const void* from, std::size_t bytes, const CopyFunctions& ways);
  // Sets the way for the next `copies` copies, which are not measured.
  void choose(bool past_cache, std::uint8_t copies) {
    goes_past_cache_ = past_cache;
    unmeasured_copies_ = copies;
  }

  std::int64_t to_shared_ps_per_line_ = 0;  // picoseconds per line at the last measurement
  std::uint8_t unmeasured_copies_ = 0;
  bool goes_past_cache_ = false;
  bool was_slow_ = false;  // the last measured copy was slow
  bool tries_other_way_ = false;
};

}  // namespace offbeat
