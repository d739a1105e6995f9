// SPDX-License-Identifier: BSD-3-Clause
// The allreduce algorithms. To add one: a file beside this, a line here, one in allreduce.cpp, and one in
// CMakeLists.txt.
#pragma once

#include <string_view>

#include "collectives/algorithm.hpp"
#include "collectives/repertoire.hpp"

namespace offbeat::allreduce_algorithms {

extern const Algorithm arrival_shares;
extern const Algorithm arrival_tree;
extern const Algorithm arrival_leader;
extern const Algorithm arrival_chain;
extern const Algorithm recursive_doubling;
extern const Algorithm recursive_multiplying;
extern const Algorithm nap;
extern const Algorithm smp;
extern const Algorithm ring;
extern const Algorithm ring_segmented;
extern const Algorithm ring_prereduced;
extern const Algorithm straggler;
extern const Algorithm arrival_owners;
extern const Algorithm rabenseifner;
extern const Algorithm bine;
extern const Algorithm linear;
extern const Algorithm binomial;

// Algorithm::order of arrival_tree and arrival_shares.
inline constexpr std::string_view tree_order = "arrival tree";

// Combines a vector as arrival_shares does, on a board whose ranks all run at once. The result of a reduce
// goes to its root alone.
[[nodiscard]] Task run_by_shares(Endpoint net, Call call);
// Likewise, for a reduce_scatter: the output of a rank is these pieces of the result, one after the other.
// `pieces` must live until the task has ended.
[[nodiscard]] Task scatter_by_shares(Endpoint net, Call call, const BlockList& pieces, int number);

// Returns the smallest number of ranks for an algorithm whose argument names the late rank (Needs::ranks).
[[nodiscard]] inline int least_ranks_with_late_rank(const Expression& self) { return self.late_rank + 1; }
// Returns all ranks, rotated so that the late one is the last.
[[nodiscard]] inline Endpoint rotated_to_late_rank_last(const Endpoint& net, const Expression& self) {
  const int first = (self.late_rank + 1) % net.size;
  return net.part({.first = first, .wraps_at = net.size}, (net.rank + net.size - first) % net.size, net.size);
}

}  // namespace offbeat::allreduce_algorithms

namespace offbeat {

extern const Repertoire allreduce;

}  // namespace offbeat
