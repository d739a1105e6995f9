// SPDX-License-Identifier: BSD-3-Clause
// The gather algorithms.
#pragma once

#include "collectives/repertoire.hpp"

namespace offbeat::gather_algorithms {

extern const Algorithm linear;
extern const Algorithm binomial;

}  // namespace offbeat::gather_algorithms

namespace offbeat {

extern const Repertoire gather;

}  // namespace offbeat
