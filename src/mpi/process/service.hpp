// SPDX-License-Identifier: BSD-3-Clause
// The services of a running MPI that the C API needs, without mpi.h.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string_view>

#include "reduction/reduction.hpp"

namespace offbeat {
struct Expression;
struct Observer;
}  // namespace offbeat

namespace offbeat::service {

[[nodiscard]] std::string_view family();

// Throws ExpressionError. Like all functions here, throws UsageError without an MPI or for an unknown
// collective.
void select(std::string_view collective, std::string_view expression);

// Returns the text of the expression that this thread's last collective ran, or null if the host served the
// call. The text lives as long as the process.
[[nodiscard]] const char* last_algorithm();
[[nodiscard]] const char* algorithm_text(const Expression* ran);

// Tells `observer`, which lives as long as the process, of all later calls through the C interface.
void observe(const Observer& observer);

struct Counts {
  std::uint64_t intercepted;
  std::uint64_t served;
};
[[nodiscard]] Counts count(std::string_view collective);

// One call; members that the collective does not have are ignored. Throws UsageError for a collective that
// offbeat does not serve.
struct Arguments {
  std::string_view collective;
  int communicator = 0;  // a Fortran handle
  int root = 0;
  const void* input = nullptr;  // null, or equal to `output`: in place
  void* output = nullptr;
  std::size_t count = 0;
  ElementType type{};
  ReduceOp op{};
  Reduction reduction;  // of these two; without kernels if the collective combines nothing
};

// Runs a collective over the communicator; memory of a GPU is copied to host memory and back. Throws
// CommunicationError, also if MPI is not running or the communicator cannot be served.
void run(const Arguments& arguments);

// Begins a collective without waiting. The communicator may be freed before the request is complete. `test`
// returns true when it is complete. Both throw CommunicationError, also after MPI_Finalize.
struct Request;
struct RequestDeleter {
  void operator()(Request* request) const;
};
using RequestPointer = std::unique_ptr<Request, RequestDeleter>;
[[nodiscard]] RequestPointer begin(const Arguments& arguments);
[[nodiscard]] bool test(Request& request);
void wait(Request& request);

}  // namespace offbeat::service
