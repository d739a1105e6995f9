// SPDX-License-Identifier: BSD-3-Clause
#include "collectives/bcast/bcast.hpp"

#include "collectives/board/arrival_direct.hpp"
#include "collectives/combinators/combinators.hpp"
#include "collectives/native.hpp"

namespace offbeat {
namespace {

using namespace bcast_algorithms;

constexpr Algorithm arrival_direct = direct::arrival_direct_of<Collective::bcast>();

constexpr const Algorithm* algorithms[] = {
    &native, &arrival_direct,        &binomial,           &knomial,      &scatter_allgather, &chain,
    &linear, &combinators::pipeline, &hierarchies::bcast, &lanes::bcast,
};

}  // namespace

const Repertoire bcast{.algorithms = algorithms, .without_host = "binomial"};

}  // namespace offbeat
