// SPDX-License-Identifier: BSD-3-Clause
#include "transport/lateness.hpp"

#include <algorithm>
#include <cstddef>
#include <numeric>
#include <utility>

namespace offbeat {

void Lateness::begin_call() {
  for (auto& known : groups_) {  // no structured binding, of which clang 14 captures no name
    const int ranks = known.first;
    Group& group = known.second;
    if (group.watcher_counts.empty()) continue;
    pool::List<int> order(static_cast<std::size_t>(ranks));
    std::iota(order.begin(), order.end(), 0);
    const auto seen = [&](int rank) { return group.seen_late[static_cast<std::size_t>(rank)]; };
    std::ranges::sort(order, {}, [&](int rank) { return std::pair(seen(rank), rank); });
    // At least half of the ranks stay: those that the fewest others saw late, and among equals the lowest.
    group.on_time.clear();
    for (std::size_t k = 0; k < order.size(); ++k) {
      const int rank = order[k];
      const bool is_late = 2 * seen(rank) > group.watcher_counts[static_cast<std::size_t>(rank)];
      if (!is_late || 2 * k < order.size()) group.on_time.push_back(rank);
    }
    std::ranges::sort(group.on_time);
    group.seen_late.clear();
    group.watcher_counts.clear();
  }
}

pool::List<int> Lateness::on_time(int ranks) const {
  const auto found = groups_.find(ranks);
  if (found != groups_.end() && !found->second.on_time.empty()) return found->second.on_time;
  pool::List<int> all(static_cast<std::size_t>(ranks));
  std::iota(all.begin(), all.end(), 0);
  return all;
}

void Lateness::note(const pool::List<int>& seen_late, const pool::List<int>& watcher_counts) {
  Group& group = groups_[static_cast<int>(watcher_counts.size())];
  group.seen_late.resize(watcher_counts.size());
  group.watcher_counts.resize(watcher_counts.size());
  for (std::size_t rank = 0; rank < watcher_counts.size(); ++rank) {
    group.seen_late[rank] += seen_late[rank];
    group.watcher_counts[rank] += watcher_counts[rank];
  }
}

}  // namespace offbeat
