// SPDX-License-Identifier: BSD-3-Clause
// The reduce algorithms.
#pragma once

#include "collectives/repertoire.hpp"

// These reduce to rank 0, whose `output` gets the result. Other ranks may use their `output`, if it has
// memory, for partial results. Operands are combined in rank order.
namespace offbeat::reduce_to_rank_0 {

// Rank 0 receives from every other rank in turn: (p-1)(a + nb + nc).
[[nodiscard]] Task linear(Endpoint net, Call call);

// A binomial tree: ceil(log2 p) (a + nb + nc).
[[nodiscard]] Task binomial(Endpoint net, Call call);

}  // namespace offbeat::reduce_to_rank_0

namespace offbeat::reduce_algorithms {

extern const Algorithm arrival_shares;
extern const Algorithm arrival_tree;
extern const Algorithm linear;
extern const Algorithm binomial;
extern const Algorithm knomial;
extern const Algorithm chain;
extern const Algorithm rabenseifner;

}  // namespace offbeat::reduce_algorithms

namespace offbeat {

extern const Repertoire reduce;

}  // namespace offbeat
