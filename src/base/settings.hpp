// SPDX-License-Identifier: BSD-3-Clause
// Every environment variable of offbeat, in one struct. Nothing else calls getenv.
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
// What offbeat does with calls on GPU memory; see node/device_memory.hpp.
enum class GpuPolicy { stage, native, off };

// The table in settings.cpp has the variable and the default of each field.
struct Settings {
  // For each collective, by index_of(); empty: offbeat chooses.
  std::array<std::string, collectives.size()> algorithms;
  std::string rules;  // a file; empty: none
  int verbose;
  bool report;
  double stall_s;
  bool check;
  WaitPolicy wait;
  GpuPolicy gpu;
  std::vector<int> progress_cpus;  // empty: none
  int node_ranks;                  // 0: as they are
  std::size_t window_bytes;        // half of a rank's board
  std::size_t memory_bytes;        // of all boards together
  std::size_t cache_bytes;
  std::string trace;  // empty: no trace
  int trace_every;
  int trace_ranks_every;
  std::uint64_t trace_bytes;

  // The defaults.
  Settings();
  // Throws UsageError for a bad value. Ignores variables that are no settings; see unknown_settings().
  static Settings from_environment();

  [[nodiscard]] const std::string& algorithm(Collective collective) const {
    return algorithms[index_of(collective)];
  }

  // A number that differs, almost surely, when settings differ that must be equal on all ranks.
  [[nodiscard]] std::uint64_t agreement() const;
};

// Returns one line that names the OFFBEAT_ variables that are no settings, and what may have been meant.
// Empty if there are none. Variables that module files define (OFFBEAT_ROOT, OFFBEAT_HOME) do not count.
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

// The variable with the algorithm of a collective: OFFBEAT_ALLREDUCE.
[[nodiscard]] std::string algorithm_setting(Collective collective);

// The rank that the launcher gave this process, known before MPI_Init; 0 if the launcher gave none. Only
// messages use it. A job that a rank of another job starts inherits the variables of that job's launcher. So
// the variables of the launcher of `family`, the MPI of the process, come first.
[[nodiscard]] int launcher_rank(std::string_view family = "openmpi");

// The environment with which another process runs under the preload as this one does: LD_PRELOAD and all
// OFFBEAT_ variables, one NAME=VALUE in each line. Empty if LD_PRELOAD is not set.
[[nodiscard]] std::string preload_environment();

// How many ranks the launcher put on this node; 1 if it did not say.
[[nodiscard]] int launcher_ranks_on_node();

}  // namespace offbeat
