// SPDX-License-Identifier: BSD-3-Clause
// Algorithms that are made of other algorithms.
#pragma once

#include "collectives/algorithm.hpp"

namespace offbeat::combinators {

extern const Algorithm pipeline;
extern const Algorithm grid;

}  // namespace offbeat::combinators

// hierarchy(NODE, LEADERS) for each collective. Some of these algorithms serve two collectives that are
// alike.
namespace offbeat::hierarchies {

extern const Algorithm allgather;
extern const Algorithm allreduce;
extern const Algorithm alltoall;
extern const Algorithm barrier;
extern const Algorithm bcast;
extern const Algorithm gather;
extern const Algorithm reduce;
extern const Algorithm reduce_scatter;
extern const Algorithm scan;
extern const Algorithm scatter;

}  // namespace offbeat::hierarchies

// These are lanes(NODE, A) for each collective that has it.
namespace offbeat::lanes {

extern const Algorithm allgather;
extern const Algorithm allreduce;
extern const Algorithm alltoall;
extern const Algorithm bcast;
extern const Algorithm reduce;
extern const Algorithm reduce_scatter;

}  // namespace offbeat::lanes
