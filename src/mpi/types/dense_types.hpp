// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include "mpi/host/host.hpp"

namespace offbeat {

// Returns true if elements of a type need no packing: their data begin where the buffer begins, follow one
// another without gaps, and lie in the order in which they are sent. Returns false if that cannot be found
// out.
//
// The function looks into types that the program made, however they are nested. It remembers nothing from one
// call to the next, because the handle may name another type by then.
[[nodiscard]] bool is_dense(const Host& host, MPI_Datatype type) noexcept;

}  // namespace offbeat
