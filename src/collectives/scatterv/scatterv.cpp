// SPDX-License-Identifier: BSD-3-Clause
#include "collectives/board/arrival_direct.hpp"
#include "collectives/native.hpp"
#include "collectives/scatter/scatter.hpp"

namespace offbeat {
namespace {

constexpr Algorithm arrival_direct = direct::arrival_direct_of<Collective::scatterv>();

constexpr const Algorithm* algorithms[] = {&native, &arrival_direct, &scatter_algorithms::linear};

}  // namespace

const Repertoire scatterv{.algorithms = algorithms, .without_host = "linear"};

}  // namespace offbeat
