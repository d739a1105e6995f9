// SPDX-License-Identifier: BSD-3-Clause
// OwnCommunicator is a communicator of this rank alone.
#pragma once

#include <mutex>

#include "mpi/host/abi.hpp"

namespace offbeat {

// offbeat uses this communicator for host calls that concern no other rank. Its errors return. If the host
// could not create one, `handle` is MPI_COMM_SELF with the program's error handler. Several threads may send
// messages on it at once.
struct OwnCommunicator {
  MPI_Comm handle = MPI_COMM_SELF;
  mutable std::mutex of_collectives;  // held during each collective on it, such as MPI_Comm_create
};

}  // namespace offbeat
