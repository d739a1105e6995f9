// SPDX-License-Identifier: BSD-3-Clause
// LowerLayers knows the functions behind the tracer. A call of MPI_X goes to the next MPI_X in line, and a
// call of PMPI_X to the next PMPI_X, as if the tracer were not there. The next one may belong to a tool, or
// to liboffbeat-<family>.so, which is preloaded behind the tracer and does the same. If only the host is
// behind, both go to its PMPI_X.
#pragma once

#include <atomic>

#include "mpi/host/host.hpp"
#include "mpi/host/observer.hpp"

namespace offbeat::trace {

struct LowerLayers {
  LowerLayers();

  Host host;
  // Returns true if liboffbeat-<family>.so is below the tracer.
  [[nodiscard]] bool has_offbeat() const { return last_algorithm_ != nullptr; }
  // Returns the text of this thread's last algorithm, or null if it was native.
  [[nodiscard]] const char* last_algorithm() const {
    return last_algorithm_ != nullptr ? last_algorithm_() : nullptr;
  }
  // Returns the text of the algorithm that a persistent collective ran at its last start, or null if it was
  // native.
  [[nodiscard]] const char* started_algorithm(MPI_Request request) const {
    return started_algorithm_ != nullptr ? started_algorithm_(&request) : nullptr;
  }
  // Tells `observer` about calls through offbeat's C interface.
  void set_observer(const Observer& observer) const {
    if (observe_ != nullptr) observe_(&observer);
  }

 private:
  // These are null if offbeat is not loaded.
  const char* (*last_algorithm_)();
  const char* (*started_algorithm_)(const void*);
  void (*observe_)(const Observer*);
};

extern std::atomic<const LowerLayers*> known_lower_layers;
// Finds the functions below. Returns false if the MPI of the process is of another family. After any other
// error the process ends with one line and exit code 2.
[[nodiscard]] bool find_lower_layers_or_pass_on();
[[nodiscard]] inline bool has_lower_layers() {
  return known_lower_layers.load(std::memory_order_acquire) != nullptr;
}
// Returns what is below the tracer. The entry point of the first call has found it. That cannot happen
// earlier, because a preload also reaches programs without MPI.
[[nodiscard]] inline const LowerLayers& lower_layers() {
  return *known_lower_layers.load(std::memory_order_acquire);
}

// Returns a function of the host, below all tools, that the tracer calls for itself.
template <Name name, class Signature>
[[nodiscard]] Signature* host_function() {
  return reinterpret_cast<Signature*>(lower_layers().host.find(name.text));
}

// Returns the function behind the tracer's function `name`, or null if the host is too old to have it.
template <Name name, class Signature>
[[nodiscard]] Signature* next() {
  return found_once<Signature>([] { return lower_layers().host.find_next(name.text); });
}

}  // namespace offbeat::trace
