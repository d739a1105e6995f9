// SPDX-License-Identifier: BSD-3-Clause
// Records the calls that a program makes by offbeat_run() and offbeat_begin() instead of MPI. offbeat tells
// the tracer about them (Observer).
#pragma once

#include "mpi/host/observer.hpp"

namespace offbeat::trace {

extern const Observer c_interface;

}  // namespace offbeat::trace
