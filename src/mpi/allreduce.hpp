// SPDX-License-Identifier: BSD-3-Clause
// One intercepted allreduce, for every spelling of the call.
#pragma once

#include <new>

#include "base/error.hpp"
#include "mpi/runtime.hpp"

namespace offbeat {

// Runs `body` -> MPI code; an exception becomes a code and goes through the communicator's error handler.
template <class Body>
int as_mpi_call(const Host& host, MPI_Comm communicator, Body&& body) noexcept {
  int code = MPI_ERR_INTERN;
  try {
    return body();
  } catch (const CommunicationError& error) {
    if (error.code != MPI_SUCCESS) code = error.code;
  } catch (const std::bad_alloc&) {
    code = MPI_ERR_NO_MEM;
  } catch (...) {  // nothing may leave through a C function
  }
  host.Comm_call_errhandler(communicator, code);
  return code;
}

// What reads only values that MPI guarantees equal on all ranks, and so decides alike: type, operation,
// count, communicator. `host_call` hands the untouched call to the host.
template <class Count, class HostCall>
int intercepted_allreduce(const void* input, void* output, Count count, MPI_Datatype type, MPI_Op op,
                          MPI_Comm communicator, HostCall&& host_call) {
  Runtime& process = runtime();
  const auto native = [&] {
    last_algorithm = nullptr;
    return host_call();
  };
  const InsideOffbeat guard;
  return as_mpi_call(process.host, communicator, [&] {
    Context* context = process.context(communicator);
    if (context == nullptr) return native();
    context->intercepted.increment();
    if (context->checks()) [[unlikely]] {
      context->check({process.host, process.types(), static_cast<std::int64_t>(count), type, op});
    }
    // Errors of the program that only this rank may have made, for the host to report.
    if (count < 0 || output == MPI_IN_PLACE || (output == nullptr && count > 0)) return native();

    const auto serve = [&](const Reduction& reduction) {
      const auto elements = static_cast<std::size_t>(count);
      const Expression* chosen = context->choose(elements, reduction.width);
      if (chosen == nullptr) return native();
      const Vector result{static_cast<std::byte*>(output), elements, reduction.width};
      const void* from = input == MPI_IN_PLACE ? output : input;
      context->require_intact();
      context->run(*chosen,
                   {{static_cast<const std::byte*>(from), elements, reduction.width}, result, &reduction});
      context->served.increment();
      last_algorithm = chosen;
      return static_cast<int>(MPI_SUCCESS);
    };
    if (const Reduction* known = process.types().predefined(type, op)) return serve(*known);
    std::optional<UserReduction> own;
    if (context->serves() && process.types().user_defined(type, op, own)) return serve(own->reduction);
    return native();
  });
}

}  // namespace offbeat
