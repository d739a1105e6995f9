// SPDX-License-Identifier: BSD-3-Clause
#include "collectives/reduce_scatter/reduce_scatter.hpp"

#include "collectives/board/arrival_direct.hpp"
#include "collectives/combinators/combinators.hpp"
#include "collectives/native.hpp"

namespace offbeat {
namespace {

using namespace reduce_scatter_algorithms;

constexpr Algorithm arrival_direct = direct::arrival_direct_of<Collective::reduce_scatter>();

constexpr const Algorithm* algorithms[] = {
    &native, &arrival_direct, &arrival_shares,        &recursive_halving,           &recursive_splitting,
    &ring,   &pairwise,       &combinators::pipeline, &hierarchies::reduce_scatter, &lanes::reduce_scatter};

}  // namespace

const Repertoire reduce_scatter{.algorithms = algorithms, .without_host = "recursive_halving"};

}  // namespace offbeat
