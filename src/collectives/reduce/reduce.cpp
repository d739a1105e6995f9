// SPDX-License-Identifier: BSD-3-Clause
#include "collectives/reduce/reduce.hpp"

#include "collectives/combinators/combinators.hpp"
#include "collectives/native.hpp"

namespace offbeat {
namespace {

using namespace reduce_algorithms;

constexpr const Algorithm* algorithms[] = {
    &native, &arrival_tree,          &arrival_shares,      &binomial,      &knomial, &rabenseifner, &chain,
    &linear, &combinators::pipeline, &hierarchies::reduce, &lanes::reduce,
};

}  // namespace

const Repertoire reduce{.algorithms = algorithms, .without_host = "binomial"};

}  // namespace offbeat
