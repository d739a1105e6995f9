// SPDX-License-Identifier: BSD-3-Clause
// Tells the tracer about the calls that a program makes by offbeat_run() and offbeat_begin(). The tracer is
// another library and cannot see these calls by itself, because they do not pass through a function of MPI.
#pragma once

#include <cstdint>

#include "base/collective.hpp"

namespace offbeat {

struct ObservedCall {
  Collective collective{};
  bool is_blocking = true;
  bool is_in_place = false;
  int communicator = 0;    // a Fortran handle
  int root = -1;           // -1: the collective has none
  std::int64_t count = 0;  // elements in one block
  std::uint32_t width = 0;
  const char* type = "";       // its name lives as long as the process
  const char* operation = "";  // its name lives as long as the process
};

// The functions of the tracer. `begins` returns a number, which is passed to the other functions.
struct Observer {
  std::uint64_t (*begins)(const ObservedCall& call) noexcept;
  // `algorithm` is null if the call has failed.
  void (*returns)(std::uint64_t number, bool is_complete, const char* algorithm) noexcept;
  void (*completes)(std::uint64_t number) noexcept;
};

}  // namespace offbeat
