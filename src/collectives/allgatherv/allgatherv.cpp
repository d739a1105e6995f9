// SPDX-License-Identifier: BSD-3-Clause
#include "collectives/allgather/allgather.hpp"
#include "collectives/alltoall/alltoall.hpp"
#include "collectives/board/arrival_direct.hpp"
#include "collectives/combinators/combinators.hpp"
#include "collectives/native.hpp"

namespace offbeat {
namespace {

constexpr Algorithm arrival_direct = direct::serving<Collective::allgatherv>();

constexpr const Algorithm* algorithms[] = {&native, &arrival_direct, &allgather_algorithms::ring,
                                           &alltoall_algorithms::linear, &hierarchies::allgather};

// Between nodes: see "nodes.py: every other collective" in benchmarks/README.md.
constexpr Default defaults[] = {
    {any_length, "arrival_direct"},
    {below_kib(64), "native"},
    {any_length, "hierarchy(arrival_direct, ring)", measured_nodes},
    {any_length, "ring", measured_nodes, Spread::node_each},
};

}  // namespace

const Repertoire allgatherv{.algorithms = algorithms, .defaults = defaults, .without_host = "ring"};

}  // namespace offbeat
