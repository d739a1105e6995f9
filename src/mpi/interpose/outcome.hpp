// SPDX-License-Identifier: BSD-3-Clause
// Outcome says what happened to a call that offbeat tried to serve.
#pragma once

#include <cstdint>

#include "mpi/host/error_code.hpp"

namespace offbeat {

class Communicator;
class RowTrial;

// The result of an attempt to serve a call.
struct Outcome {
  // `by_name`: the host has to serve the call by the native(NAME) in last_algorithm. `alone`: a non-blocking
  // call among one rank, which is a copy, is to be served like a blocking one.
  enum class Kind : std::uint8_t { served, native, failed, by_name, alone };
  Kind kind = Kind::native;
  bool is_counted = false;  // true if a communicator has counted the call; otherwise the process has to
  // Says where a call is measured that the host has to serve: `in_trial` for a blocking one, a place among
  // the MeasuredRequests for a non-blocking one, and `none` for all others.
  std::int8_t measured_where = none;
  static constexpr std::int8_t none = -1;
  static constexpr std::int8_t in_trial = 0;
  int code = MPI_SUCCESS;  // an error code of the host MPI, if the call failed
};
static_assert(sizeof(Outcome) <= sizeof(void*), "fits in a register");

// The trial of the blocking call of this thread that the host has to serve.
inline constinit thread_local RowTrial* trial_of_host [[gnu::tls_model("initial-exec")]] = nullptr;

// The communicator that counted the last blocking call of this thread, in which the host may run.
inline constinit thread_local Communicator* communicator_of_call [[gnu::tls_model("initial-exec")]] = nullptr;

}  // namespace offbeat
