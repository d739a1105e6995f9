// SPDX-License-Identifier: BSD-3-Clause
#include "collectives/board/arrival_direct.hpp"
#include "collectives/gather/gather.hpp"
#include "collectives/native.hpp"

namespace offbeat {
namespace {

constexpr Algorithm arrival_direct = direct::arrival_direct_of<Collective::gatherv>();

constexpr const Algorithm* algorithms[] = {&native, &arrival_direct, &gather_algorithms::linear};

}  // namespace

const Repertoire gatherv{.algorithms = algorithms, .without_host = "linear"};

}  // namespace offbeat
