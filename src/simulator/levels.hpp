// SPDX-License-Identifier: BSD-3-Clause
// The levels inside a node: cores that share a cache, a NUMA domain, a socket, the node. Lines that cross a
// level take its time, for boards and for messages.
#pragma once

#include <cstddef>
#include <limits>
#include <vector>

#include "simulator/port.hpp"

namespace offbeat {

// Each `ranks` consecutive ranks of a node share this level (0: all of them). Seconds, and bytes per second.
struct Level {
  int ranks = 0;
  double line = 0;      // until a line arrives from a core with which the reader shares this, but none nearer
  double per_byte = 0;  // of further lines, of which a core has several in flight
  // Limit of what enters one group of these ranks from the rest of the node, and of what leaves it.
  double link_rate = std::numeric_limits<double>::infinity();
  // Limit of what the cores of one group read and write if the data of a call exceed the last cache.
  double memory_rate = std::numeric_limits<double>::infinity();
};

// The levels of equal nodes, and the links of all groups. A rank's place is its number on its node.
class Levels {
 public:
  Levels() = default;
  // `levels` goes from near to far. The last level holds for all that share none.
  Levels(std::vector<Level> levels, int nodes, int most_ranks_on_node);

  [[nodiscard]] bool empty() const { return levels_.empty(); }
  [[nodiscard]] const Level& nearest() const { return levels_.front(); }
  // Returns the nearest level that all ranks of a node share.
  [[nodiscard]] const Level& farthest() const { return levels_[farthest_]; }
  // Returns the nearest level that two ranks of a node share.
  [[nodiscard]] const Level& between(int place, int other) const { return levels_[index(place, other)]; }
  [[nodiscard]] std::size_t index(int place, int other) const;
  [[nodiscard]] const Level& operator[](std::size_t level) const { return levels_[level]; }
  // Sends lines through the links between two ranks from `now` on. Returns when the last one has passed.
  double pass(int node, int from, int to, double now, double bytes);
  // Makes all links idle.
  void clear();

  // The ranks of a node are in groups, each of which has its own memory. Returns the rate of one of them.
  [[nodiscard]] double memory_rate() const { return memory_rate_; }
  [[nodiscard]] std::size_t memories() const { return nodes_ * memories_of_node_; }
  [[nodiscard]] std::size_t memory_of(int node, int place) const {
    return static_cast<std::size_t>(node) * memories_of_node_ +
           static_cast<std::size_t>(place / memory_ranks_);
  }

 private:
  struct Link {
    ExclusivePort in;
    ExclusivePort out;
  };

  std::vector<Level> levels_;
  std::size_t farthest_ = 0;
  std::size_t nodes_ = 1;
  std::size_t memories_of_node_ = 1;
  int memory_ranks_ = 1;
  double memory_rate_ = std::numeric_limits<double>::infinity();
  std::vector<std::vector<Link>> links_;  // of each level, node by node; empty if nothing limits the level
};

}  // namespace offbeat
