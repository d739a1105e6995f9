// SPDX-License-Identifier: BSD-3-Clause
// Every environment variable of offbeat, in one struct. Nothing else calls getenv.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>

namespace offbeat {

enum class WaitPolicy { automatic, spin, yield, sleep };

struct Settings {
  std::string allreduce;                               // OFFBEAT_ALLREDUCE; empty: offbeat chooses
  int verbose = 0;                                     // OFFBEAT_VERBOSE
  bool report = false;                                 // OFFBEAT_REPORT
  double stall_s = 60;                                 // OFFBEAT_STALL_S
  bool check = false;                                  // OFFBEAT_CHECK
  WaitPolicy wait = WaitPolicy::automatic;             // OFFBEAT_WAIT
  int node_ranks = 0;                                  // OFFBEAT_NODE_RANKS; 0: as they are
  std::size_t window_bytes = std::size_t{1} << 20;     // OFFBEAT_BOARD_KIB, half of it
  std::size_t memory_bytes = std::size_t{64} << 20;    // OFFBEAT_MEMORY_MIB
  std::size_t cache_bytes = std::size_t{256} << 20;    // OFFBEAT_CACHE_MIB
  std::string trace;                                   // OFFBEAT_TRACE; empty: no trace
  int trace_every = 1;                                 // OFFBEAT_TRACE_EVERY
  int trace_ranks_every = 1;                           // OFFBEAT_TRACE_RANKS_EVERY
  std::uint64_t trace_bytes = std::uint64_t{1} << 30;  // OFFBEAT_TRACE_MIB

  // A number that differs, almost surely, when settings differ that all ranks must share.
  [[nodiscard]] std::uint64_t agreement() const;

  // Throws UsageError for a bad value and for an OFFBEAT_ variable that does not exist.
  static Settings from_environment();
};

// One setting as `offbeat info --settings` and the documentation print it.
struct SettingDescription {
  std::string_view name;
  std::string_view default_value;
  std::string_view values;
  std::string_view meaning;
};
[[nodiscard]] std::span<const SettingDescription> setting_descriptions();

// The rank that the launcher gave this process, before MPI_Init; 0 if it did not say. Only for messages.
[[nodiscard]] int launcher_rank();

// The environment with which another process runs under the preload as this one does: LD_PRELOAD and all
// OFFBEAT_ variables, one NAME=VALUE in each line. Empty if LD_PRELOAD is not set.
[[nodiscard]] std::string preload_environment();

// How many ranks the launcher put on this node; 1 if it did not say.
[[nodiscard]] int launcher_ranks_on_node();

}  // namespace offbeat
