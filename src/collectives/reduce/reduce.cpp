// SPDX-License-Identifier: BSD-3-Clause
#include "collectives/reduce/reduce.hpp"

#include "collectives/combinators/combinators.hpp"
#include "collectives/native.hpp"

namespace offbeat {
namespace {

using namespace reduce_algorithms;

constexpr const Algorithm* algorithms[] = {
    &native,
    &arrival_tree,
    &binomial,
    &rabenseifner,
    &chain,
    &linear,
    &combinators::pipeline,
    &hierarchies::reduce,
};

// Between nodes: see "nodes.py: every other collective" in benchmarks/README.md. A chain takes as many steps
// as there are nodes and segments together, so it pays from as many segments as nodes on.
constexpr std::size_t segment = std::size_t{16} << 10;
constexpr Default defaults[] = {
    {any_length, "arrival_tree"},
    {any_length, "hierarchy(arrival_tree, pipeline(16KiB, chain))", measured_nodes, Spread::any, segment},
    {any_length, "pipeline(16KiB, chain)", measured_nodes, Spread::node_each, segment},
    {below_kib(1), "native"},
    {any_length, "hierarchy(arrival_tree, binomial)", measured_nodes},
};

}  // namespace

const Repertoire reduce{.algorithms = algorithms, .defaults = defaults, .without_host = "binomial"};

}  // namespace offbeat
