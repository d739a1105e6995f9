// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <unistd.h>

#include "base/error.hpp"
#include "base/log.hpp"
#include "base/settings.hpp"
#include "mpi/host/abi.hpp"

namespace offbeat {

// Ends the process with one line and exit code 2. Rank 0 prints first. The launcher then ends the other ranks
// before they print the same line. A rank other than 0 is heard if rank 0 did not fail.
[[noreturn]] inline void exit_with(const UsageError& error) {
  if (launcher_rank(abi::family) != 0) sleep(1);
  say(error.what());
  _exit(2);
}

}  // namespace offbeat
