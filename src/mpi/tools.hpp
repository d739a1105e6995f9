// SPDX-License-Identifier: BSD-3-Clause
// Tools that stand behind offbeat: profilers that wrap MPI_X and call PMPI_X, linked into the program or
// preloaded after us.
//
// The program means its call for the tool, and the tool means its call of PMPI_X for the MPI library. In
// place of that library stands offbeat: MPI_X is passed on to the tool, and what comes back as PMPI_X is
// served.
//
// Some tools define both and jump to the host's PMPI_X: so what has to be done once for a call, but for
// serving it, is done when it first arrives.
#pragma once

#include "mpi/host.hpp"

namespace offbeat {

// Their functions for the collectives that are served.
struct Tools : CollectiveFunctions {
  Tools() : CollectiveFunctions("MPI_", Host::next) {}
};

}  // namespace offbeat
