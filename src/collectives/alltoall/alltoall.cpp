// SPDX-License-Identifier: BSD-3-Clause
#include "collectives/alltoall/alltoall.hpp"

#include "collectives/board/arrival_direct.hpp"
#include "collectives/combinators/combinators.hpp"
#include "collectives/native.hpp"

namespace offbeat {
namespace {

using namespace alltoall_algorithms;

constexpr Algorithm arrival_direct = direct::serving<Collective::alltoall>();

constexpr const Algorithm* algorithms[] = {&native,   &arrival_direct, &bruck,
                                           &pairwise, &linear,         &hierarchies::alltoall};

// Between nodes: see "nodes.py: every other collective" in benchmarks/README.md.
constexpr Default defaults[] = {
    {any_length, "arrival_direct"},
    {below_kib(2), "hierarchy(arrival_direct, linear)", measured_nodes},
    {below_kib(1), "bruck", measured_nodes, Spread::node_each},
    {below_kib(32), "native"},
    {any_length, "hierarchy(arrival_direct, linear)", measured_nodes},
    {below_kib(64), "native"},
    {below_kib(256), "linear", measured_nodes, Spread::node_each},
};

}  // namespace

const Repertoire alltoall{.algorithms = algorithms, .defaults = defaults, .without_host = "pairwise"};

}  // namespace offbeat
