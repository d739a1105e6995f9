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

// Short vectors take few steps: up to 7 nodes exchange in one, 64 in three. From here on the bytes that this
// sends more weigh as much as the latency that it saves: on a network of 20 Gbit/s and 1 us, or slower.
constexpr Default defaults[] = {
    {any_length, "arrival_tree"},
    {below_kib(4), "hierarchy(arrival_tree, recursive_multiplying(7))"},
    {below_kib(32), "hierarchy(arrival_tree, recursive_doubling)"},
    {any_length, "hierarchy(arrival_tree, rabenseifner)"},
    {below_kib(4), "recursive_multiplying(7)"},
    {below_kib(32), "recursive_doubling"},
    {any_length, "rabenseifner"},
};

}  // namespace

const Repertoire allreduce{
    .algorithms = algorithms, .defaults = defaults, .without_host = "recursive_doubling"};

}  // namespace offbeat
