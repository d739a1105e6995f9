// SPDX-License-Identifier: BSD-3-Clause
// Tools behind offbeat: profilers that wrap MPI_X and call PMPI_X. They are linked into the program or
// preloaded after offbeat.
//
// The program's call is meant for the tool, and the tool's call of PMPI_X is meant for the MPI library.
// offbeat takes the place of that library: it passes MPI_X on to the tool, and serves the PMPI_X that comes
// back.
//
// Some tools define both functions and jump to the host's PMPI_X. So everything that has to be done once per
// call, except serving it, is done when the call first arrives.
#pragma once

#include "mpi/host/host.hpp"

namespace offbeat {

// The functions of the profilers for the served collectives.
struct ProfilerFunctions : CollectiveFunctions {
  ProfilerFunctions() : CollectiveFunctions("MPI_", Host::next) {}
};

}  // namespace offbeat
