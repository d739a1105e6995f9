// SPDX-License-Identifier: BSD-3-Clause
#include "collectives/gather/gather.hpp"

#include "collectives/board/arrival_direct.hpp"
#include "collectives/combinators/combinators.hpp"
#include "collectives/native.hpp"

namespace offbeat {
namespace {

using namespace gather_algorithms;

constexpr Algorithm arrival_direct = direct::serving<Collective::gather>();

constexpr const Algorithm* algorithms[] = {&native, &arrival_direct, &binomial, &linear,
                                           &hierarchies::gather};

// Between nodes: see "nodes.py: every other collective" in benchmarks/README.md.
constexpr Default defaults[] = {
    {any_length, "arrival_direct"},
    {any_length, "linear", measured_nodes, Spread::node_each},
    {below_kib(8), "native"},
    {any_length, "hierarchy(arrival_direct, linear)", measured_nodes},
};

}  // namespace

const Repertoire gather{.algorithms = algorithms, .defaults = defaults, .without_host = "binomial"};

}  // namespace offbeat
