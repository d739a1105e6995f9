// SPDX-License-Identifier: BSD-3-Clause
#include "collectives/reduce_scatter/reduce_scatter.hpp"

#include "collectives/board/arrival_direct.hpp"
#include "collectives/combinators/combinators.hpp"
#include "collectives/native.hpp"

namespace offbeat {
namespace {

using namespace reduce_scatter_algorithms;

constexpr Algorithm arrival_direct = direct::serving<Collective::reduce_scatter>();

constexpr const Algorithm* algorithms[] = {
    &native,   &arrival_direct,        &recursive_halving,          &ring,
    &pairwise, &combinators::pipeline, &hierarchies::reduce_scatter};

// Between nodes: see "nodes.py: every other collective" in benchmarks/README.md.
constexpr Default defaults[] = {
    {any_length, "arrival_direct"},
    {below_kib(64), "native"},
    {any_length, "hierarchy(arrival_direct, ring)", measured_nodes},
    {any_length, "ring", measured_nodes, Spread::node_each},
};

}  // namespace

const Repertoire reduce_scatter{
    .algorithms = algorithms, .defaults = defaults, .without_host = "recursive_halving"};

}  // namespace offbeat
