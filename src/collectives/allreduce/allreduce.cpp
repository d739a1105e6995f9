// SPDX-License-Identifier: BSD-3-Clause
#include "collectives/allreduce/allreduce.hpp"

#include "collectives/combinators/combinators.hpp"
#include "collectives/native.hpp"

namespace offbeat {
namespace {

using namespace allreduce_algorithms;
using namespace combinators;

constexpr const Algorithm* algorithms[] = {
    &native,
    &arrival_tree,
    &arrival_shares,
    &arrival_leader,
    &arrival_chain,
    &recursive_doubling,
    &recursive_multiplying,
    &rabenseifner,
    &bine,
    &ring,
    &ring_segmented,
    &ring_prereduced,
    &straggler,
    &arrival_owners,
    &binomial,
    &linear,
    &pipeline,
    &grid,
    &hierarchies::allreduce,
    &lanes::allreduce,
    &nap,
    &smp,
};

}  // namespace

const Repertoire allreduce{.algorithms = algorithms, .without_host = "recursive_doubling"};

}  // namespace offbeat
