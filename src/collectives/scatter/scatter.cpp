// SPDX-License-Identifier: BSD-3-Clause
#include "collectives/scatter/scatter.hpp"

#include "collectives/board/arrival_direct.hpp"
#include "collectives/combinators/combinators.hpp"
#include "collectives/native.hpp"

namespace offbeat {
namespace {

using namespace scatter_algorithms;

constexpr Algorithm arrival_direct = direct::arrival_direct_of<Collective::scatter>();

constexpr const Algorithm* algorithms[] = {&native, &arrival_direct, &binomial, &linear,
                                           &hierarchies::scatter};

}  // namespace

const Repertoire scatter{.algorithms = algorithms, .without_host = "binomial"};

}  // namespace offbeat
