// SPDX-License-Identifier: BSD-3-Clause
#include "collectives/alltoall/alltoall.hpp"

#include "collectives/board/arrival_direct.hpp"
#include "collectives/combinators/combinators.hpp"
#include "collectives/native.hpp"

namespace offbeat {
namespace {

using namespace alltoall_algorithms;

constexpr Algorithm arrival_direct = direct::arrival_direct_of<Collective::alltoall>();

constexpr const Algorithm* algorithms[] = {
    &native, &arrival_direct, &bruck, &k_bruck, &pairwise, &linear, &hierarchies::alltoall, &lanes::alltoall};

}  // namespace

const Repertoire alltoall{.algorithms = algorithms, .without_host = "pairwise"};

}  // namespace offbeat
