// SPDX-License-Identifier: BSD-3-Clause
// The MPI of a process that is of another family than this library.
#pragma once

#include <atomic>

#include "mpi/host.hpp"

namespace offbeat {

// Its libmpi. Null: the MPI of this process is of this family, or has not been looked for.
extern std::atomic<void*> other_family;

// Lets all calls go there from now on, and says so in one line on one rank.
void pass_on_to(const OtherFamily& found);

// The function to which ours of this name passes a call on: the next in line, otherwise the MPI's own. Null
// if there is none.
[[nodiscard]] void* behind_in_other_family(const char* name);
// Given the name MPI_X_c or PMPI_X_c, the function MPI_X or PMPI_X; otherwise null.
[[nodiscard]] void* narrow_in_other_family(const char* name);

}  // namespace offbeat
