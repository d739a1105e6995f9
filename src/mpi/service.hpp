// SPDX-License-Identifier: BSD-3-Clause
// The services of a running MPI that the C API needs, without mpi.h.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string_view>

#include "reduction/reduction.hpp"

namespace offbeat {
class Operation;
}

namespace offbeat::service {

[[nodiscard]] std::string_view family();

// Like all of these: throws UsageError where no MPI is loaded, or for an unknown collective. Throws
// ExpressionError.
void select(std::string_view collective, std::string_view expression);

// The text of what this thread's last intercepted collective ran, which lives as long as the process; null:
// native.
[[nodiscard]] const char* last_algorithm();

struct Counts {
  std::uint64_t intercepted;
  std::uint64_t served;
};
[[nodiscard]] Counts count(std::string_view collective);

// Collective over the communicator. `input` null or equal to `output`: in place. False: MPI is not running,
// or the communicator cannot be served. Throws CommunicationError.
[[nodiscard]] bool allreduce(const void* input, void* output, std::size_t count, const Reduction& reduction,
                             int fortran_communicator);

// The same without waiting. The communicator may be freed before the operation is complete. `test` is true
// when it is complete, and is then not called again, nor `wait`. Both throw CommunicationError, also after
// MPI_Finalize.
struct OperationDeleter {
  void operator()(Operation* operation) const;
};
using OperationPointer = std::unique_ptr<Operation, OperationDeleter>;
// Null: like false above.
[[nodiscard]] OperationPointer begin_allreduce(const void* input, void* output, std::size_t count,
                                               const Reduction& reduction, int fortran_communicator);
[[nodiscard]] bool test(Operation& operation);
void wait(Operation& operation);

}  // namespace offbeat::service
