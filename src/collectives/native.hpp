// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include "collectives/algorithm.hpp"

namespace offbeat {

// The host MPI's own choice, of every collective: the baseline, the fallback and the oracle.
extern const Algorithm native;

}  // namespace offbeat
