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

// Between nodes: see "nodes.py: every other collective" in benchmarks/README.md.
constexpr Default defaults[] = {
    {any_length, "arrival_tree"},
    {below_kib(1), "native"},
    {below_kib(64), "hierarchy(arrival_tree, binomial)", few_nodes},
    {any_length, "hierarchy(arrival_tree, pipeline(16KiB, chain))", few_nodes},
    {below_kib(64), "native"},
    {below_kib(512), "rabenseifner", few_nodes, Spread::node_each},
    {any_length, "pipeline(16KiB, chain)", few_nodes, Spread::node_each},
};

}  // namespace

const Repertoire reduce{.algorithms = algorithms, .defaults = defaults, .without_host = "binomial"};

}  // namespace offbeat
