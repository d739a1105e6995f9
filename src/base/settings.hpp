// SPDX-License-Identifier: BSD-3-Clause
// Settings holds the value of every environment variable of offbeat. Nothing else calls getenv for them.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/collective.hpp"

namespace offbeat {

enum class WaitPolicy { automatic, spin, yield, sleep };
// Which rules may have several alternatives; see selection/plan.hpp.
enum class Adapt : std::uint8_t {
  off,  // none: the first alternative runs
  on,   // those whose alternatives give the same bits
  any,  // all
};
// How offbeat treats calls on GPU memory; see node/device_memory.hpp.
enum class GpuPolicy { stage, node, native, off };
// Returns true if offbeat copies memory of a GPU.
[[nodiscard]] constexpr bool copies_device_memory(GpuPolicy policy) {
  return policy == GpuPolicy::stage || policy == GpuPolicy::node;
}

enum class NetworkChoice { automatic, mpi, tcp, libfabric };

// All settings of this process. The table in settings.cpp has the variable and the default of each field.
struct Settings {
  // The expression for each collective, by index_of(); empty: offbeat chooses.
  std::array<std::string, collectives.size()> algorithms;
  std::string rules;    // path of the rules; empty: only built-in rules
  std::string machine;  // path of the machine file; empty: the built-in machine
  Adapt adapt;
  int verbose;
  bool report;
  bool counters;
  long stall_s;
  bool check;
  WaitPolicy wait;
  GpuPolicy gpu;
  std::vector<int> progress_cpus;  // empty: no progress thread on its own CPUs
  int node_ranks;                  // 0: the real nodes
  NetworkChoice network;           // that connects the nodes of a group
  std::string provider;            // of libfabric; empty: libfabric chooses
  std::string interface;           // of this machine; empty: the one on the route to the other ranks
  std::size_t window_bytes;        // half of a rank's window on the board
  std::size_t memory_bytes;        // limit for all boards together
  std::size_t cache_bytes;
  std::string trace;  // empty: no trace
  int trace_every;
  int trace_ranks_every;
  Collectives trace_collectives;    // the collectives that are recorded
  std::string trace_communicators;  // see trace/communicator_filter.hpp; empty: all
  bool trace_paused;                // record nothing before MPI_Pcontrol(1)
  std::uint64_t trace_bytes;

  // Sets every field to its default.
  Settings();
  // Reads the environment. Throws UsageError for a bad value. Ignores unknown names; see unknown_settings().
  static Settings from_environment();

  // True if the user wants a network of offbeat's own, also for communicators of MPI.
  [[nodiscard]] bool wants_own_network() const {
    return network == NetworkChoice::tcp || network == NetworkChoice::libfabric;
  }
  [[nodiscard]] const std::string& algorithm(Collective collective) const {
    return algorithms[index_of(collective)];
  }

  // Returns a hash of all settings that must be equal on all ranks. Different settings almost surely give
  // different hashes.
  [[nodiscard]] std::uint64_t agreement() const;
};

// Returns one line that names the OFFBEAT_ variables that are not settings, and what the user may have meant.
// The text is empty if there are none. Variables that module files define (OFFBEAT_ROOT, OFFBEAT_HOME) are
// ignored.
[[nodiscard]] std::string unknown_settings();

// One setting as `offbeat info --settings` and the documentation print it.
struct SettingDescription {
  std::string name;
  std::string default_value;
  std::string values;
  std::string meaning;
  bool equal_on_all_ranks;
};
[[nodiscard]] std::vector<SettingDescription> setting_descriptions();

// Returns the name of the variable that sets the algorithm of a collective, such as OFFBEAT_ALLREDUCE.
[[nodiscard]] std::string algorithm_setting(Collective collective);

// Returns what another process needs in its environment to run under the preload as this one does: LD_PRELOAD
// and all OFFBEAT_ variables, one NAME=VALUE per line. Empty if LD_PRELOAD is not set.
[[nodiscard]] std::string preload_environment();

}  // namespace offbeat
