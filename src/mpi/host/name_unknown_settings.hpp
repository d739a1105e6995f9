// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <atomic>
#include <string>

#include "base/error.hpp"
#include "base/log.hpp"
#include "base/settings.hpp"
#include "mpi/host/host.hpp"

namespace offbeat {

// Warns once about OFFBEAT_ variables that are not settings, in one line from rank 0 of MPI_COMM_WORLD. Call
// this when MPI is running. Before that, only the launcher's variables tell a rank its number, and not every
// launcher sets them.
inline void name_unknown_settings(const Host& host) {
  static std::atomic<bool> is_done{false};
  if (is_done.exchange(true, std::memory_order_relaxed) || host.rank_in(MPI_COMM_WORLD) != 0) return;
  run_ignoring_exceptions([] {
    const std::string line = unknown_settings();
    if (!line.empty()) say(line);
  });
}

}  // namespace offbeat
