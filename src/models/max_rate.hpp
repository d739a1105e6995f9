// SPDX-License-Identifier: BSD-3-Clause
// The max-rate model predicts the time of an allreduce by messages on several nodes, if all ranks begin at
// once. Its formulas are closed and agree with the simulator. docs/explanation/models.md derives them.
//
// Source: Bienz, Olson and Gropp, EuroMPI 2019, equations 3 to 6; Gropp, Olson and Samfass, EuroMPI 2016.
#pragma once

#include <cstddef>
#include <optional>
#include <string_view>

namespace offbeat::max_rate {

// What messages and reductions cost, in seconds and bytes per second. The rates hold for one message length
// at which a sender does not wait for the receiver.
struct Rates {
  double node_alpha;  // latency within a node, in seconds
  double node_beta;   // seconds per byte within a node
  double alpha;       // latency between nodes; `beta` as within a node
  double beta;
  double injection_rate;           // R_N: bytes per second that leave a node; may be infinite
  double gamma;                    // seconds per byte that is combined
  std::size_t envelope_bytes = 0;  // bytes that each message has besides its data
};

// Nodes with the same number of ranks each. The ranks of a node are consecutive.
struct Shape {
  int nodes;
  int ranks_per_node;
};

// Returns the time of recursive_doubling, smp or nap in seconds. Returns nothing for other algorithms, and if
// the number of nodes or of ranks per node is not a power of two. In that case ranks end at different times
// and steps overlap, so there is no closed formula.
[[nodiscard]] std::optional<double> allreduce(std::string_view algorithm, const Rates& rates, Shape shape,
                                              std::size_t bytes);

}  // namespace offbeat::max_rate
