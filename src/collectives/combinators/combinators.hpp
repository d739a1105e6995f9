// SPDX-License-Identifier: BSD-3-Clause
// Algorithms that are made of others: each serves whatever collective its parts serve, as far as it makes
// sense.
#pragma once

#include "collectives/algorithm.hpp"

namespace offbeat::combinators {

extern const Algorithm pipeline;
extern const Algorithm grid;
extern const Algorithm hierarchy;

}  // namespace offbeat::combinators
