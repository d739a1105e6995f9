// SPDX-License-Identifier: BSD-3-Clause
// What the C API needs of a running MPI, without mpi.h.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

#include "reduction/reduction.hpp"

namespace offbeat::service {

[[nodiscard]] std::string_view family();

// Like all of these: throws UsageError where no MPI is loaded, or for an unknown collective. Throws ExpressionError.
void select(std::string_view collective, std::string_view expression);

struct Counts {
  std::uint64_t intercepted;
  std::uint64_t served;
};
[[nodiscard]] Counts count(std::string_view collective);

// Collective over the communicator. `input` null or equal to `output`: in place. False: MPI is not running, or the communicator
// cannot be served. Throws CommunicationError.
[[nodiscard]] bool allreduce(const void* input, void* output, std::size_t count, const Reduction& reduction,
                             int fortran_communicator);

}  // namespace offbeat::service
