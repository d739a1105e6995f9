// SPDX-License-Identifier: BSD-3-Clause
#include "collectives/bcast/bcast.hpp"

#include "collectives/combinators/combinators.hpp"
#include "collectives/direct.hpp"
#include "collectives/native.hpp"

namespace offbeat {
namespace {

using namespace bcast_algorithms;

constexpr Algorithm arrival_direct = direct::serving<Collective::bcast>();

constexpr const Algorithm* algorithms[] = {
    &native, &arrival_direct,        &binomial,           &scatter_allgather, &chain,
    &linear, &combinators::pipeline, &hierarchies::bcast, &lanes::bcast,
};

// Between nodes: see "nodes.py: every other collective" in benchmarks/README.md.
constexpr Default defaults[] = {
    {any_length, "arrival_direct"},
    {below_kib(32), "native"},
    {below_kib(64), "hierarchy(arrival_direct, binomial)", few_nodes},
    {any_length, "hierarchy(arrival_direct, pipeline(16KiB, chain))", few_nodes},
    {below_kib(128), "native"},
    {any_length, "pipeline(16KiB, chain)", few_nodes, Spread::node_each},
};

}  // namespace

const Repertoire bcast{.algorithms = algorithms, .defaults = defaults, .without_host = "binomial"};

}  // namespace offbeat
