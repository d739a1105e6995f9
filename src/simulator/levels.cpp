// SPDX-License-Identifier: BSD-3-Clause
#include "simulator/levels.hpp"

#include <algorithm>
#include <cmath>
#include <utility>

namespace offbeat {
namespace {

std::size_t groups(int ranks, int of) { return static_cast<std::size_t>((ranks + of - 1) / of); }

}  // namespace

// If several levels limit their memory, the one counts that leaves each rank the least.
Levels::Levels(std::vector<Level> levels, int nodes, int most_ranks_on_node)
    : levels_(std::move(levels)),
      nodes_(static_cast<std::size_t>(nodes)),
      memory_ranks_(most_ranks_on_node),
      links_(levels_.size()) {
  double least_of_rank = std::numeric_limits<double>::infinity();
  for (std::size_t k = 0; k < levels_.size(); ++k) {
    Level& level = levels_[k];
    if (level.ranks == 0 || level.ranks > most_ranks_on_node) level.ranks = most_ranks_on_node;
    if (std::isfinite(level.link_rate)) links_[k].resize(nodes_ * groups(most_ranks_on_node, level.ranks));
    const double of_rank = level.memory_rate / level.ranks;
    if (of_rank >= least_of_rank) continue;
    least_of_rank = of_rank;
    memory_rate_ = level.memory_rate;
    memory_ranks_ = level.ranks;
  }
  memories_of_node_ = groups(most_ranks_on_node, memory_ranks_);
  if (!levels_.empty()) farthest_ = index(0, most_ranks_on_node - 1);
}

std::size_t Levels::index(int place, int other) const {
  std::size_t k = 0;
  while (k + 1 < levels_.size() && place / levels_[k].ranks != other / levels_[k].ranks) ++k;
  return k;
}

double Levels::pass(int node, int from, int to, double now, double bytes) {
  double passed = now;
  for (std::size_t k = 0, shared = index(from, to); k < shared; ++k) {
    std::vector<Link>& links = links_[k];
    if (links.empty()) continue;
    const std::size_t first = static_cast<std::size_t>(node) * (links.size() / nodes_);
    const auto link_of = [&](int place) -> Link& {
      return links[first + static_cast<std::size_t>(place / levels_[k].ranks)];
    };
    const double seconds = bytes / levels_[k].link_rate;
    passed = std::max({passed, link_of(from).out.pass(now, seconds), link_of(to).in.pass(now, seconds)});
  }
  return passed;
}

void Levels::clear() {
  for (std::vector<Link>& links : links_) std::fill(links.begin(), links.end(), Link{});
}

}  // namespace offbeat
