// SPDX-License-Identifier: BSD-3-Clause
// Tools that stand behind offbeat: profilers that wrap MPI_X and call PMPI_X, linked into the program or
// preloaded after us.
//
// The program means its call for the tool, and the tool means its call of PMPI_X for the MPI library. In
// place of that library stands offbeat: MPI_X is passed on to the tool, and what comes back as PMPI_X is
// served.
#pragma once

#include <dlfcn.h>

#include "mpi/host.hpp"

namespace offbeat {

class Tools {
 public:
  explicit Tools(const Host& host) : host_(host) {}

 private:
  const Host& host_;

  // Python loads libmpi late and privately: then nothing is found, and there is no tool.
  [[nodiscard]] void* find(const char* name) const {
    void* next = dlsym(RTLD_NEXT, name);
    return next == host_.find(name) ? nullptr : next;
  }

 public:
  HostFunction<decltype(MPI_Allreduce)> Allreduce{find("MPI_Allreduce")};
#if OFFBEAT_LARGE_COUNT
  HostFunction<decltype(MPI_Allreduce_c)> Allreduce_c{find("MPI_Allreduce_c")};
#endif
  HostFunction<decltype(MPI_Comm_disconnect)> Comm_disconnect{find("MPI_Comm_disconnect")};
  HostFunction<decltype(MPI_Comm_free)> Comm_free{find("MPI_Comm_free")};
  HostFunction<decltype(MPI_Finalize)> Finalize{find("MPI_Finalize")};
  HostFunction<decltype(MPI_Init)> Init{find("MPI_Init")};
  HostFunction<decltype(MPI_Init_thread)> Init_thread{find("MPI_Init_thread")};
};

}  // namespace offbeat
