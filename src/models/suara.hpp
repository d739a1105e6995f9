// SPDX-License-Identifier: BSD-3-Clause
// SUARA: the grid of allreduces that costs least (Nuriyev et al., JPDC 2024, section 4).
//
// A grid of x columns and P/x rows takes T(x) = T_row(x) + T_column(P/x), where each algorithm has latency
// and bandwidth of its own. docs/explanation/models.md derives what is computed here.
#pragma once

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <cstddef>
#include <optional>
#include <span>
#include <string_view>
#include <utility>
#include <vector>

namespace offbeat::suara {

// Hockney's parameters: latency in seconds, and seconds per byte.
struct Hockney {
  double a = 0;
  double b = 0;
};

// The parameters of messages of at least from_bytes bytes.
struct LongerMessages {
  double from_bytes = 0;
  Hockney parameters;
};

// What messages cost. The latency and the rate of a message depend on its length.
struct Messages {
  Hockney shortest;
  std::vector<LongerMessages> longer{};  // shortest first
  double o = 0;                          // time of a core for each further message that is under way at once
  double v = 0;                          // time of a core to send a message and to receive another
  double eager_bytes = 8192;             // longer messages wait for their receivers

  [[nodiscard]] Hockney of(double bytes) const {
    const double whole = std::ceil(bytes);
    Hockney found = shortest;
    for (const LongerMessages& each : longer)
      if (whole >= each.from_bytes) found = each.parameters;
    return found;
  }
};

// All that the cost of one algorithm depends on, besides the number p of its ranks. These are a line of the
// grid, and its neighbours may share nodes.
struct Costs {
  double n = 0;                        // bytes of the vector
  const Messages* messages = nullptr;  // if there is `near`, of those that leave a node
  const Messages* near = nullptr;      // of those that stay on a node; null: all messages are alike
  int near_ranks = 1;                  // how many neighbours are on a node
  double least_b = 0;                  // lower limit of b, if one rank of each line on a node sends
  double c = 0;                        // seconds per byte that is combined
  double segment = 0;                  // bytes of a segment of ring_segmented

  // Returns true if each block of `span` neighbours is on one node, in all lines.
  [[nodiscard]] bool stays_on_node(int p, long span) const {
    return near != nullptr && near_ranks % span == 0 && p % span == 0;
  }
  [[nodiscard]] Hockney message(double bytes) const {
    const Hockney found = messages->of(bytes);
    return {found.a, std::max(found.b, least_b)};
  }
  // Returns what a message costs within blocks of `span` neighbours.
  [[nodiscard]] Hockney message(double bytes, int p, long span) const {
    return stays_on_node(p, span) ? near->of(bytes) : message(bytes);
  }
  // Returns an upper limit of the cost if each rank exchanges with the one at this distance, a power of two.
  // If p is not a power of two, pairs were folded, and ranks that stand for two are twice as far apart.
  [[nodiscard]] Hockney exchange(double bytes, int p, long distance) const {
    const bool is_power = std::has_single_bit(static_cast<unsigned>(p));
    if (stays_on_node(p, is_power ? 2 * distance : 4 * distance)) return near->of(bytes);
    const Hockney found = messages->of(bytes);
    const auto senders =
        static_cast<double>(std::min<long>(near_ranks, 2 * distance));  // on a node, of each line
    return {found.a, std::max(found.b, senders * least_b)};
  }
  // Returns what a step costs in which all ranks send to their neighbours, if many such steps follow. The
  // slowest message counts if messages wait for their receivers. Otherwise a rank can be ahead of others, and
  // the mean counts, or the time for which the busiest rank cannot begin another step.
  [[nodiscard]] Hockney step_of_ring(double bytes, int p) const {
    const Hockney far = message(bytes);
    if (near == nullptr) return far;
    const Hockney on_node = near->of(bytes);
    const double far_seconds = far.a + bytes * far.b;
    const double near_seconds = on_node.a + bytes * on_node.b;
    if (bytes > messages->eager_bytes) return far_seconds < near_seconds ? on_node : far;
    const double far_part = std::ceil(static_cast<double>(p) / near_ranks) / p;
    const double mean = far_part * far_seconds + (1 - far_part) * near_seconds;
    const double busy = std::max({messages->o + bytes * far.b, messages->v, near->o + bytes * on_node.b});
    return {std::max(mean, busy) - bytes * far.b, far.b};
  }
  // Returns 1 if a message of n bytes waits for its receiver, else 0.
  [[nodiscard]] double w() const { return n > messages->eager_bytes ? 1 : 0; }
};

// The part of a cost that depends on the number p of ranks, without rounding:
// logarithmic log2(p) + linear p + reciprocal / p.
struct CostTerms {
  double logarithmic = 0;
  double linear = 0;
  double reciprocal = 0;
};

// An algorithm that can run along one dimension of a grid.
struct BaseAlgorithm {
  std::string_view name;  // as in expressions
  double (*time)(const Costs& costs, int ranks);
  CostTerms (*terms)(const Costs& costs, double ranks);  // those that hold near this number of ranks
};
// Returns the paper's six algorithms. `binomial` is its non-overlapping reduce and broadcast.
[[nodiscard]] std::span<const BaseAlgorithm> bases();

// Returns the number x of columns at which T(x) is smallest between its ends, or nothing if T has no minimum
// there.
[[nodiscard]] std::optional<double> stationary_point(const CostTerms& row, const CostTerms& column,
                                                     double ranks);

// A base algorithm on a machine.
struct Candidate {
  const BaseAlgorithm* base = nullptr;
  Messages within;  // among the ranks of one node
  Messages between;
  double segment = 0;
};

struct Problem {
  int ranks = 1;
  int ranks_per_node = 1;  // consecutive ranks share a node
  double bytes = 0;
  double c = 0;
  double node_b = 0;  // seconds per byte of all messages together that leave a node; 0: no limit
  Messages messages;  // with which surplus ranks are folded
  Messages near{};    // the same for those that stay on a node
  int most_dimensions = 3;
  bool may_fold = true;  // false: the grid has exactly these ranks
};

inline constexpr int most_dimensions = 3;

// With one dimension the ranks are not split. Surplus ranks, if any, are folded into the grid.
struct Grid {
  int dimensions = 0;
  std::array<int, most_dimensions> sizes{};
  std::array<std::size_t, most_dimensions> algorithms{};  // indices of candidates
  double seconds = 0;

  [[nodiscard]] int ranks() const {
    int product = 1;
    for (int k = 0; k < dimensions; ++k) product *= sizes[static_cast<std::size_t>(k)];
    return product;
  }
};

// Returns the cheapest grid. At least one candidate is needed. The same input gives the same result in every
// process, so ranks that agree on the input agree on the grid.
[[nodiscard]] Grid cheapest_grid(const Problem& problem, std::span<const Candidate> candidates);

// Returns the time of a grid, which need not be the cheapest one.
[[nodiscard]] double seconds(const Problem& problem, std::span<const Candidate> candidates, const Grid& grid);

}  // namespace offbeat::suara
