// SPDX-License-Identifier: BSD-3-Clause
#include "collectives/barrier/barrier.hpp"

#include "collectives/combinators/combinators.hpp"
#include "collectives/native.hpp"

namespace offbeat {
namespace {

using namespace barrier_algorithms;

constexpr const Algorithm* algorithms[] = {&native, &arrival_counter, &dissemination, &k_dissemination,
                                           &hierarchies::barrier};

}  // namespace

const Repertoire barrier{.algorithms = algorithms, .without_host = "dissemination"};

}  // namespace offbeat
