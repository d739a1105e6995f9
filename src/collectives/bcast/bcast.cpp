// SPDX-License-Identifier: BSD-3-Clause
#include "collectives/bcast/bcast.hpp"

#include "collectives/board/arrival_direct.hpp"
#include "collectives/combinators/combinators.hpp"
#include "collectives/native.hpp"

namespace offbeat {
namespace {

using namespace bcast_algorithms;

constexpr Algorithm arrival_direct = direct::serving<Collective::bcast>();

constexpr const Algorithm* algorithms[] = {
    &native, &arrival_direct,        &binomial,           &scatter_allgather, &chain,
    &linear, &combinators::pipeline, &hierarchies::bcast, &lanes::bcast,
};

// Between nodes: see "nodes.py: every other collective" in benchmarks/README.md. A chain takes as many steps
// as there are nodes and segments together, so it pays from as many segments as nodes on.
constexpr std::size_t segment = std::size_t{16} << 10;
constexpr Default defaults[] = {
    {any_length, "arrival_direct"},
    {any_length, "hierarchy(arrival_direct, pipeline(16KiB, chain))", measured_nodes, Spread::any, segment},
    {any_length, "pipeline(16KiB, chain)", measured_nodes, Spread::node_each, segment},
};

}  // namespace

const Repertoire bcast{.algorithms = algorithms, .defaults = defaults, .without_host = "binomial"};

}  // namespace offbeat
