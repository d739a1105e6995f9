// SPDX-License-Identifier: BSD-3-Clause
#include "collectives/reduce/reduce.hpp"

#include "collectives/combinators/combinators.hpp"
#include "collectives/native.hpp"

namespace offbeat {
namespace {

using namespace reduce_algorithms;

constexpr const Algorithm* algorithms[] = {
    &native,
    &arrival_tree,
    &binomial,
    &rabenseifner,
    &chain,
    &linear,
    &combinators::pipeline,
    &hierarchies::reduce,
};

// Between nodes the hosts do as well.
constexpr Default defaults[] = {{any_length, "arrival_tree"}};

}  // namespace

const Repertoire reduce{.algorithms = algorithms, .defaults = defaults, .without_host = "binomial"};

}  // namespace offbeat
