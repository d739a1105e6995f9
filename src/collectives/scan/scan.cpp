// SPDX-License-Identifier: BSD-3-Clause
#include "collectives/scan/scan.hpp"

#include "collectives/combinators/combinators.hpp"
#include "collectives/native.hpp"

namespace offbeat {
namespace {

using namespace scan_algorithms;

constexpr const Algorithm* algorithms[] = {
    &native, &arrival_prefix, &recursive_doubling, &chain, &combinators::pipeline, &hierarchies::scan,
};

constexpr Repertoire of_both{.algorithms = algorithms, .without_host = "recursive_doubling"};

}  // namespace

const Repertoire scan = of_both;
const Repertoire exscan = of_both;

}  // namespace offbeat
