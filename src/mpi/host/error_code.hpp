// SPDX-License-Identifier: BSD-3-Clause
// The error codes of the host MPI that offbeat's exceptions mean.
#pragma once

#include <new>

#include "base/error.hpp"
#include "mpi/host/abi.hpp"

namespace offbeat {

// Returns the error code of the exception that is being handled.
[[nodiscard]] inline int code_of_exception() {
  try {
    throw;
  } catch (const TruncationError&) {
    return MPI_ERR_TRUNCATE;
  } catch (const CommunicationError& error) {
    return error.code != MPI_SUCCESS ? error.code : MPI_ERR_OTHER;
  } catch (const std::bad_alloc&) {
    return MPI_ERR_NO_MEM;
  } catch (...) {
    return MPI_ERR_OTHER;
  }
}

}  // namespace offbeat
