// SPDX-License-Identifier: BSD-3-Clause
// The barrier algorithms.
#pragma once

#include "collectives/repertoire.hpp"

namespace offbeat::barrier_algorithms {

extern const Algorithm arrival_counter;
extern const Algorithm dissemination;
extern const Algorithm k_dissemination;

}  // namespace offbeat::barrier_algorithms

namespace offbeat {

extern const Repertoire barrier;

}  // namespace offbeat
