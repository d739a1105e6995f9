// SPDX-License-Identifier: BSD-3-Clause
// Which ranks are predicted to come late to the next collective on a communicator: what its last calls
// showed.
//
// All ranks must predict alike, so only what all of them were told in the same calls is noted here, and it
// counts from the next call on: the segments of one call may end in any order.
#pragma once

#include <map>

#include "base/pool.hpp"

namespace offbeat {

class Lateness {
 public:
  // What was noted since the last time becomes the prediction.
  void begin_call();

  // The ranks, of so many, that are not predicted late: at least half of them, in their order.
  [[nodiscard]] pool::List<int> on_time(int ranks) const;

  // Of each rank: how many of those who watched it, itself excepted, saw it come late.
  void note(const pool::List<int>& seen_late, const pool::List<int>& watchers);

 private:
  // By the number of ranks: a communicator's, or those that have the same member number on each node. A rank
  // without such ranks on all nodes knows nothing of any, and need not.
  struct Group {
    pool::List<int> seen_late;
    pool::List<int> watchers;
    pool::List<int> on_time;  // empty: nothing is known
  };
  std::map<int, Group> groups_;
};

}  // namespace offbeat
