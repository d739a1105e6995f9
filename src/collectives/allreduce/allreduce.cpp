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

// Short vectors take few steps: up to 7 nodes exchange in one, 64 in three. From 4 KiB on the bytes that this
// sends more weigh as much as the latency that it saves: on a network of 20 Gbit/s and 1 us, or slower. Up to
// 512 bytes one step of 56 messages is faster among 8 nodes, too, than two of 32.
// Longer ones of few nodes gain most from arrival_owners, if a node is late and if not; from 1 MiB on ring is
// as fast if none is. See "nodes.py" in benchmarks/README.md.
constexpr Default defaults[] = {
    {any_length, "arrival_tree"},
    {512, "hierarchy(arrival_tree, recursive_multiplying(8))", measured_nodes},
    {below_kib(4), "hierarchy(arrival_tree, recursive_multiplying(7))"},
    {below_kib(16), "hierarchy(arrival_tree, recursive_doubling)"},
    {any_length, "hierarchy(arrival_tree, arrival_owners)", measured_nodes},
    {below_kib(32), "hierarchy(arrival_tree, recursive_doubling)"},
    {any_length, "hierarchy(arrival_tree, rabenseifner)"},
    {512, "recursive_multiplying(8)", measured_nodes, Spread::node_each},
    {below_kib(4), "recursive_multiplying(7)"},
    {below_kib(1024), "arrival_owners", measured_nodes, Spread::node_each},
    {any_length, "ring", measured_nodes, Spread::node_each},
    {below_kib(32), "recursive_doubling"},
    {any_length, "rabenseifner"},
};

}  // namespace

const Repertoire allreduce{
    .algorithms = algorithms, .defaults = defaults, .without_host = "recursive_doubling"};

}  // namespace offbeat
