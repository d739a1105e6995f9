// SPDX-License-Identifier: BSD-3-Clause
// The functions behind the tracer. A call of MPI_X goes on to the next MPI_X in line, and one of PMPI_X to
// the next PMPI_X, as if the tracer were not there. The next one may belong to a tool, or to
// liboffbeat-<family>.so, which is preloaded behind the tracer and does the same. If only the host is behind,
// both go on to its PMPI_X.
// PMPI_X to the next PMPI_X, as if the tracer were not there: to those of tools behind the tracer, and of
// liboffbeat-<family>.so, which is preloaded behind it and does the same. Where only the host is behind, both
// go on to its PMPI_X.
#pragma once

#include <atomic>

#include "mpi/host.hpp"

namespace offbeat::trace {

struct Below {
  Below();

  Host host;
  // The text of this thread's last algorithm, null for native; null if offbeat is not there.
  const char* (*last_algorithm)();
};

extern std::atomic<const Below*> what_is_below;
const Below& find_what_is_below();
// Found at the first call, because a preload also reaches programs without MPI. Without an MPI of this family
// the process ends with one line and exit code 2.
[[nodiscard]] inline const Below& below() {
  const Below* known = what_is_below.load(std::memory_order_acquire);
  return known != nullptr ? *known : find_what_is_below();
}

// A function of the host that the tracer calls for itself, below all tools.
template <Name name, class Signature>
[[nodiscard]] Signature* of_host() {
  return reinterpret_cast<Signature*>(below().host.find(name.text));
}

// The function behind one of ours; null if the host is too old to have it.
template <Name name, class Signature>
[[nodiscard]] Signature* next() {
  return found_once<Signature>([] { return below().host.behind(name.text); });
}

}  // namespace offbeat::trace
