// SPDX-License-Identifier: BSD-3-Clause
// Tools that stand behind offbeat: profilers that wrap MPI_X and call PMPI_X, linked into the program or
// preloaded after us.
//
// The program means its call for the tool, and the tool means its call of PMPI_X for the MPI library. In
// place of that library stands offbeat: MPI_X is passed on to the tool, and what comes back as PMPI_X is
// served.
#pragma once

#include "mpi/host.hpp"

namespace offbeat {

// Some tools define both and jump to the host's PMPI_X: so what has to be done once for a call, but for
// serving it, is done when it first arrives.
struct Tools {
  HostFunction<decltype(MPI_Allreduce)> Allreduce{Host::next("MPI_Allreduce")};
#if OFFBEAT_LARGE_COUNT
  HostFunction<decltype(MPI_Allreduce_c)> Allreduce_c{Host::next("MPI_Allreduce_c")};
#endif
  HostFunction<decltype(MPI_Comm_disconnect)> Comm_disconnect{Host::next("MPI_Comm_disconnect")};
  HostFunction<decltype(MPI_Comm_free)> Comm_free{Host::next("MPI_Comm_free")};
  HostFunction<decltype(MPI_Finalize)> Finalize{Host::next("MPI_Finalize")};
  HostFunction<decltype(MPI_Init)> Init{Host::next("MPI_Init")};
  HostFunction<decltype(MPI_Init_thread)> Init_thread{Host::next("MPI_Init_thread")};
};

}  // namespace offbeat
