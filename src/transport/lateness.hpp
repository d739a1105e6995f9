// SPDX-License-Identifier: BSD-3-Clause
// Lateness predicts which ranks will come late to the next collective on a communicator, from what its last
// calls showed.
//
// All ranks must predict alike. So a rank notes only what every rank was told in the same calls. Notes count
// from the next call on, because the segments of one call may end in any order.
#pragma once

#include <map>

#include "base/pool.hpp"

namespace offbeat {

class Lateness {
 public:
  // Turns what was noted since the last call into the prediction for this one.
  void begin_call();

  // Returns the ranks, out of `ranks`, that are not predicted to be late. These are at least half of them, in
  // rank order.
  [[nodiscard]] pool::List<int> on_time(int ranks) const;

  // Notes for each rank how many others watched it, and how many of these saw it come late.
  void note(const pool::List<int>& seen_late, const pool::List<int>& watcher_counts);

 private:
  // The notes are kept by the number of ranks. That tells the whole communicator from the ranks with one
  // member number on each node. A rank whose number is missing on some node notes nothing, and needs nothing.
  struct Group {
    pool::List<int> seen_late;
    pool::List<int> watcher_counts;
    pool::List<int> on_time;  // empty: nothing is known
  };
  std::map<int, Group> groups_;
};

}  // namespace offbeat
