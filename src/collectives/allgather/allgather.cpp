// SPDX-License-Identifier: BSD-3-Clause
#include "collectives/allgather/allgather.hpp"

#include "collectives/alltoall/alltoall.hpp"
#include "collectives/board/arrival_direct.hpp"
#include "collectives/combinators/combinators.hpp"
#include "collectives/native.hpp"

namespace offbeat {
namespace {

using namespace allgather_algorithms;

constexpr Algorithm arrival_direct = direct::arrival_direct_of<Collective::allgather>();

constexpr const Algorithm* algorithms[] = {&native,
                                           &arrival_direct,
                                           &recursive_doubling,
                                           &bruck,
                                           &k_bruck,
                                           &ring,
                                           &neighbor_exchange,
                                           &alltoall_algorithms::linear,
                                           &combinators::pipeline,
                                           &hierarchies::allgather,
                                           &lanes::allgather};

}  // namespace

const Repertoire allgather{.algorithms = algorithms, .without_host = "bruck"};

}  // namespace offbeat
