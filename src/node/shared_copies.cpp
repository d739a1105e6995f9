// SPDX-License-Identifier: BSD-3-Clause
#include "node/shared_copies.hpp"

namespace offbeat {
namespace {

// Of a line: more than a copy from one cache to another takes that has nothing to take away.
constexpr double dear_ns = 5;
// The other way must be so much cheaper, because the reader has to fetch the lines from memory then.
constexpr double much_cheaper = 2;

}  // namespace

void SharedCopies::measure(void* to, const void* from, std::size_t bytes, const CopyWays& ways) {
  const std::int64_t begin = ways.now_ns();
  (tries_the_other_ ? ways.past_cache : ways.to_shared)(to, from, bytes);
  const double ns = static_cast<double>(ways.now_ns() - begin) / (static_cast<double>(bytes) / cache_line);
  if (tries_the_other_) {
    tries_the_other_ = false;
    if (much_cheaper * ns < to_shared_ns_) return choose(true, 63);
    return choose(false, 127);  // nothing is gained: it is the source that is slow
  }
  to_shared_ns_ = ns;
  if (ns < dear_ns) {
    was_dear_ = false;
    return choose(false, 15);
  }
  // Twice in a row: the pages are not new, and it was no interruption.
  tries_the_other_ = was_dear_;
  was_dear_ = true;
}

}  // namespace offbeat
