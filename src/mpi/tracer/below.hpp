// SPDX-License-Identifier: BSD-3-Clause
// The functions behind the tracer. A call of MPI_X goes on to the next MPI_X in line, and one of PMPI_X to
// the next PMPI_X, as if the tracer were not there. The next one may belong to a tool, or to
// liboffbeat-<family>.so, which is preloaded behind the tracer and does the same. If only the host is behind,
// both go on to its PMPI_X.
#pragma once

#include <atomic>

#include "mpi/host/host.hpp"
#include "mpi/host/observer.hpp"

namespace offbeat::trace {

struct Below {
  Below();

  Host host;
  // Whether liboffbeat-<family>.so is below the tracer.
  [[nodiscard]] bool has_offbeat() const { return last_algorithm_ != nullptr; }
  // The text of this thread's last algorithm; null: native.
  [[nodiscard]] const char* last_algorithm() const {
    return last_algorithm_ != nullptr ? last_algorithm_() : nullptr;
  }
  // The text of the algorithm that a persistent collective ran when it was last started; null: native.
  [[nodiscard]] const char* started_algorithm(MPI_Request request) const {
    return started_algorithm_ != nullptr ? started_algorithm_(&request) : nullptr;
  }
  // Tells `observer` of calls through offbeat's C interface.
  void tell(const Observer& observer) const {
    if (observe_ != nullptr) observe_(&observer);
  }

 private:
  // These are null if offbeat is not there.
  const char* (*last_algorithm_)();
  const char* (*started_algorithm_)(const void*);
  void (*observe_)(const Observer*);
};

extern std::atomic<const Below*> what_is_below;
// Finds what is below. Returns false if the MPI of the process is of another family. After any other error
// the process ends with one line and exit code 2.
[[nodiscard]] bool find_what_is_below_or_pass_on();
[[nodiscard]] inline bool has_below() { return what_is_below.load(std::memory_order_acquire) != nullptr; }
// What is below the tracer. The entry point of the first call has found it: a preload also reaches programs
// without MPI.
[[nodiscard]] inline const Below& below() { return *what_is_below.load(std::memory_order_acquire); }

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
