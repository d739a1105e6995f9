// SPDX-License-Identifier: BSD-3-Clause
// The max-rate model of an allreduce on several nodes by messages: closed formulas for the time in which the
// simulator carries it out when all ranks begin at once. docs/models.md derives them.
//
// Source: Bienz, Olson and Gropp, EuroMPI 2019, equations 3 to 6; Gropp, Olson and Samfass, EuroMPI 2016.
#pragma once

#include <cstddef>
#include <optional>
#include <string_view>

namespace offbeat::max_rate {

// Of messages of one length, no longer than what is sent without waiting for the receiver. Seconds, and bytes
// per second.
struct Rates {
  double node_alpha;  // latency within a node
  double node_beta;   // seconds per byte within a node
  double alpha;       // between nodes
  double beta;
  double injection_rate;           // of all that leaves a node: R_N; may be infinite
  double gamma;                    // reduction: per byte and operand but the first
  std::size_t envelope_bytes = 0;  // that each message has beside its own
};

// Nodes of equally many ranks, which are consecutive.
struct Shape {
  int nodes;
  int ranks_per_node;
};

// The time of recursive_doubling, smp or nap. Nothing for other algorithms, and where a number of nodes or
// ranks is no power of two: ranks then end at different times, and the steps overlap.
[[nodiscard]] std::optional<double> allreduce(std::string_view algorithm, const Rates& rates, Shape shape,
                                              std::size_t bytes);

}  // namespace offbeat::max_rate
