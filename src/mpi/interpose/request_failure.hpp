// SPDX-License-Identifier: BSD-3-Clause
// How a function that completes requests reports that a collective of offbeat's has failed.
#pragma once

#include <cstdint>

#include "mpi/host/host.hpp"

namespace offbeat {

// The error of a collective. The function that completes its request reports it to the program.
struct RequestFailure {
  int code = MPI_SUCCESS;
  MPI_Comm communicator{};
};

// What the function that reports the error is for.
enum class Completion : std::uint8_t {
  one,   // MPI_Wait, MPI_Test
  any,   // MPI_Waitany, MPI_Testany
  many,  // MPI_Waitall, MPI_Waitsome, MPI_Testall, MPI_Testsome: the statuses have the codes
  none,  // MPI_Request_get_status
};

// Calls the error handler that the host would call for a request of its own. Returns what the function has to
// return. Call this with no lock held and nothing to destroy, because the handler may not return.
int report_failure(const Host& host, Completion completion, const RequestFailure& failure);

}  // namespace offbeat
