// SPDX-License-Identifier: BSD-3-Clause
// Records calls through offbeat's C interface. offbeat tells the tracer about them.
#pragma once

#include "mpi/host/observer.hpp"

namespace offbeat::trace {

extern const Observer c_interface;

}  // namespace offbeat::trace
