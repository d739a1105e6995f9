// SPDX-License-Identifier: BSD-3-Clause
#include "base/settings.hpp"

#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <cstdlib>
#include <initializer_list>
#include <string>

#include "base/error.hpp"
#include "base/hash.hpp"
#include "base/log.hpp"

extern char** environ;  // NOLINT(readability-redundant-declaration): not in every libc's unistd.h

namespace offbeat {
namespace {

constexpr std::string_view prefix = "OFFBEAT_";

constexpr SettingDescription descriptions[] = {
    {"OFFBEAT_ALLREDUCE", "", "an algorithm expression, such as ring or pipeline(4, ring)",
     "the algorithm of every MPI_Allreduce; unset: offbeat chooses by size"},
    {"OFFBEAT_VERBOSE", "0", "0, 1",
     "1: say once for each collective and range of lengths which algorithm runs and why (standard error, one "
     "rank)"},
    {"OFFBEAT_REPORT", "0", "0, 1",
     "1: at MPI_Finalize rank 0 says how many calls were intercepted and served"},
    {"OFFBEAT_STALL_S", "60", "0 to 1000000",
     "say which ranks have not arrived when a collective on one node waits longer than this, in seconds; 0: "
     "never"},
    {"OFFBEAT_CHECK", "0", "0, 1",
     "1: compare count, type and operation of all ranks before each collective; a mismatch is an error, not "
     "a hang"},
    {"OFFBEAT_WAIT", "auto", "auto, spin, yield, sleep",
     "how a rank waits for another; auto spins where each rank has a core, and otherwise yields"},
    {"OFFBEAT_NODE_RANKS", "0", "0 to 1000000",
     "for tests on one machine: treat every so many consecutive ranks as a node; 0: ask the MPI"},
    {"OFFBEAT_BOARD_KIB", "2048", "0 to 1048576",
     "shared memory of a rank for each communicator on one node, for all but short messages; 0: no shared "
     "memory"},
    {"OFFBEAT_MEMORY_MIB", "64", "1 to 1048576",
     "shared memory of a rank for all communicators together, beyond which those that are not in use give "
     "theirs back"},
    {"OFFBEAT_CACHE_MIB", "256", "0 to 1048576",
     "how much freed scratch memory a thread keeps for the next call"},
    {"OFFBEAT_TRACE", "", "a folder",
     "where liboffbeat-trace writes who arrives when, one file for each rank; unset: nowhere"},
    {"OFFBEAT_TRACE_EVERY", "1", "1 to 1000000000", "trace every so many calls of each communicator"},
    {"OFFBEAT_TRACE_RANKS_EVERY", "1", "1 to 1000000000", "trace every so many ranks of MPI_COMM_WORLD"},
    {"OFFBEAT_TRACE_MIB", "1024", "2 to 1048576", "the longest that the trace of one rank becomes, in MiB"},
};

[[noreturn]] void bad(const SettingDescription& setting, std::string_view value) {
  throw UsageError(std::string(setting.name) + "='" + printable(value) +
                   "' is not understood; values: " + std::string(setting.values));
}

long whole_number(const SettingDescription& setting, std::string_view value, long most, long least = 0) {
  long result = 0;
  const auto [end, error] = std::from_chars(value.data(), value.data() + value.size(), result);
  if (error != std::errc() || end != value.data() + value.size() || result < least || result > most) {
    bad(setting, value);
  }
  return result;
}

void apply(Settings& settings, const SettingDescription& setting, std::string_view value) {
  if (setting.name == "OFFBEAT_ALLREDUCE") {
    settings.allreduce = value;
  } else if (setting.name == "OFFBEAT_VERBOSE") {
    settings.verbose = static_cast<int>(whole_number(setting, value, 1));
  } else if (setting.name == "OFFBEAT_REPORT") {
    settings.report = whole_number(setting, value, 1) == 1;
  } else if (setting.name == "OFFBEAT_STALL_S") {
    settings.stall_s = static_cast<double>(whole_number(setting, value, 1000000));
  } else if (setting.name == "OFFBEAT_CHECK") {
    settings.check = whole_number(setting, value, 1) == 1;
  } else if (setting.name == "OFFBEAT_WAIT") {
    if (value == "auto") {
      settings.wait = WaitPolicy::automatic;
    } else if (value == "spin") {
      settings.wait = WaitPolicy::spin;
    } else if (value == "yield") {
      settings.wait = WaitPolicy::yield;
    } else if (value == "sleep") {
      settings.wait = WaitPolicy::sleep;
    } else {
      bad(setting, value);
    }
  } else if (setting.name == "OFFBEAT_NODE_RANKS") {
    settings.node_ranks = static_cast<int>(whole_number(setting, value, 1000000));
  } else if (setting.name == "OFFBEAT_BOARD_KIB") {
    // Two halves of whole pages.
    const auto kib = static_cast<std::size_t>(whole_number(setting, value, 1 << 20));
    settings.window_bytes = kib == 0 ? 0 : std::max<std::size_t>(1, kib / 8) * 4096;
  } else if (setting.name == "OFFBEAT_MEMORY_MIB") {
    settings.memory_bytes = static_cast<std::size_t>(whole_number(setting, value, 1 << 20, 1)) << 20;
  } else if (setting.name == "OFFBEAT_CACHE_MIB") {
    settings.cache_bytes = static_cast<std::size_t>(whole_number(setting, value, 1 << 20)) << 20;
  } else if (setting.name == "OFFBEAT_TRACE") {
    settings.trace = value;
  } else if (setting.name == "OFFBEAT_TRACE_EVERY") {
    settings.trace_every = static_cast<int>(whole_number(setting, value, 1'000'000'000, 1));
  } else if (setting.name == "OFFBEAT_TRACE_RANKS_EVERY") {
    settings.trace_ranks_every = static_cast<int>(whole_number(setting, value, 1'000'000'000, 1));
  } else if (setting.name == "OFFBEAT_TRACE_MIB") {
    settings.trace_bytes = static_cast<std::uint64_t>(whole_number(setting, value, 1 << 20, 2)) << 20;
  }
}

int first_number(std::initializer_list<const char*> names, int otherwise) {
  for (const char* name : names) {
    if (const char* value = std::getenv(name)) return std::atoi(value);
  }
  return otherwise;
}

}  // namespace

Settings Settings::from_environment() {
  Settings settings;
  for (char** entry = environ; entry != nullptr && *entry != nullptr; ++entry) {
    const std::string_view text(*entry);
    if (!text.starts_with(prefix)) continue;
    const std::size_t equals = text.find('=');
    const std::string_view name = text.substr(0, equals);
    const SettingDescription* known = nullptr;
    for (const SettingDescription& setting : descriptions) {
      if (setting.name == name) known = &setting;
    }
    if (known == nullptr) {
      throw UsageError("unknown setting " + printable(name) + "; `offbeat info --settings` lists them");
    }
    // Set but empty is unset: launchers cannot always remove a variable.
    if (equals + 1 < text.size()) apply(settings, *known, text.substr(equals + 1));
  }
  return settings;
}

std::uint64_t Settings::agreement() const {
  const std::string shared = allreduce + '\0' + std::to_string(window_bytes) + ' ' +
                             std::to_string(node_ranks) + ' ' + std::to_string(check ? 1 : 0);
  return fnv1a(shared);
}

std::span<const SettingDescription> setting_descriptions() { return descriptions; }

int launcher_rank() {
  return first_number({"OMPI_COMM_WORLD_RANK", "PMIX_RANK", "PMI_RANK", "SLURM_PROCID"}, 0);
}

std::string preload_environment() {
  std::string lines;
  bool has_preload = false;
  for (char** entry = environ; entry != nullptr && *entry != nullptr; ++entry) {
    const std::string_view text(*entry);
    const bool is_preload = text.starts_with("LD_PRELOAD=");
    if (!is_preload && !text.starts_with(prefix)) continue;
    has_preload = has_preload || is_preload;
    lines += (lines.empty() ? "" : "\n") + std::string(text);
  }
  return has_preload ? lines : std::string();
}

int launcher_ranks_on_node() {
  return first_number({"OMPI_COMM_WORLD_LOCAL_SIZE", "MPI_LOCALNRANKS", "SLURM_NTASKS_PER_NODE"}, 1);
}

}  // namespace offbeat
