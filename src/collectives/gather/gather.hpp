// SPDX-License-Identifier: BSD-3-Clause
// The algorithms of gather and gatherv.
#pragma once

#include "collectives/repertoire.hpp"

namespace offbeat::gather_algorithms {

extern const Algorithm linear;
extern const Algorithm binomial;

}  // namespace offbeat::gather_algorithms

namespace offbeat {

extern const Repertoire gather;
extern const Repertoire gatherv;

}  // namespace offbeat
