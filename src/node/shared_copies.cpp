// SPDX-License-Identifier: BSD-3-Clause
#include "node/shared_copies.hpp"

namespace offbeat {
namespace {

// A line that takes longer than this was probably taken away from another core. A copy between two caches
// takes less.
constexpr std::int64_t slow_ps_per_line = 5000;
// copy_past_cache() must be cheaper by this factor, because the reader then fetches the lines from memory.
constexpr std::int64_t least_gain = 2;

}  // namespace

void SharedCopies::measure(void* to, const void* from, std::size_t bytes, const CopyFunctions& ways) {
  const std::int64_t begin = ways.now_ns();
  (tries_other_way_ ? ways.past_cache : ways.to_shared)(to, from, bytes);
  const std::int64_t ps_per_line =
      (ways.now_ns() - begin) * 1000 / static_cast<std::int64_t>(bytes / cache_line);
  if (tries_other_way_) {
    tries_other_way_ = false;
    if (least_gain * ps_per_line < to_shared_ps_per_line_) return choose(true, 63);
    return choose(false, 127);  // nothing is gained, because reading the source is slow
  }
  to_shared_ps_per_line_ = ps_per_line;
  if (ps_per_line < slow_ps_per_line) {
    was_slow_ = false;
    return choose(false, 15);
  }
  // The last copy was slow, too. So the cause is neither new pages nor an interruption, and the next copy
  // tries the other way.
  tries_other_way_ = was_slow_;
  was_slow_ = true;
}

}  // namespace offbeat
