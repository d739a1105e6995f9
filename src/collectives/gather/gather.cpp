// SPDX-License-Identifier: BSD-3-Clause
#include "collectives/gather/gather.hpp"

#include "collectives/board/arrival_direct.hpp"
#include "collectives/combinators/combinators.hpp"
#include "collectives/native.hpp"

namespace offbeat {
namespace {

using namespace gather_algorithms;

constexpr Algorithm arrival_direct = direct::arrival_direct_of<Collective::gather>();

constexpr const Algorithm* algorithms[] = {&native, &arrival_direct, &binomial, &linear,
                                           &hierarchies::gather};

}  // namespace

const Repertoire gather{.algorithms = algorithms, .without_host = "binomial"};

}  // namespace offbeat
