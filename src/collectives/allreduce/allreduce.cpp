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
    &arrival_leader,
    &arrival_chain,
    &recursive_doubling,
    &recursive_multiplying,
    &rabenseifner,
    &ring,
    &ring_segmented,
    &binomial,
    &linear,
    &pipeline,
    &grid,
    &hierarchies::allreduce,
    &nap,
    &smp,
};

constexpr std::size_t below_32_kib = (std::size_t{32} << 10) - 1;
constexpr Default defaults[] = {
    {any_length, "arrival_tree"},
    {below_32_kib, "hierarchy(arrival_tree, recursive_doubling)"},
    {any_length, "hierarchy(arrival_tree, rabenseifner)"},
    {below_32_kib, "recursive_doubling"},
    {any_length, "rabenseifner"},
};

}  // namespace

const Repertoire allreduce{
    .algorithms = algorithms, .defaults = defaults, .without_host = "recursive_doubling"};

}  // namespace offbeat
