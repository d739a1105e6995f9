// SPDX-License-Identifier: BSD-3-Clause
// Tells MPI jobs apart that run at the same time.
#pragma once

#include <cstdint>

namespace offbeat {

// Returns a number that is equal on all ranks of MPI_COMM_WORLD and differs from that of every other job, or
// 0 if the launcher does not say which job this is.
[[nodiscard]] std::uint64_t job_identity();

}  // namespace offbeat
