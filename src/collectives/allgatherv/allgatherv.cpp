// SPDX-License-Identifier: BSD-3-Clause
#include "collectives/allgather/allgather.hpp"
#include "collectives/alltoall/alltoall.hpp"
#include "collectives/board/arrival_direct.hpp"
#include "collectives/combinators/combinators.hpp"
#include "collectives/native.hpp"

namespace offbeat {
namespace {

constexpr Algorithm arrival_direct = direct::arrival_direct_of<Collective::allgatherv>();

constexpr const Algorithm* algorithms[] = {&native, &arrival_direct, &allgather_algorithms::ring,
                                           &alltoall_algorithms::linear, &hierarchies::allgather};

}  // namespace

const Repertoire allgatherv{.algorithms = algorithms, .without_host = "ring"};

}  // namespace offbeat
