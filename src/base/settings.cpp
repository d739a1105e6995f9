// SPDX-License-Identifier: BSD-3-Clause
#include "base/settings.hpp"

#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstdlib>
#include <iterator>
#include <string>
#include <string_view>
#include <utility>

#include "base/error.hpp"
#include "base/hash.hpp"
#include "base/log.hpp"
#include "base/setting_parsers.hpp"
#include "base/similar.hpp"

extern char** environ;  // NOLINT(readability-redundant-declaration): not in every libc's unistd.h

namespace offbeat {
namespace {

constexpr std::string_view variable_prefix = "OFFBEAT_";

constexpr auto mebibytes = [](long count) { return count << 20; };
// Half of `kib` KiB, in chunks of 4 KiB (BoardShape::smallest_chunk).
constexpr auto half_in_whole_chunks = [](long kib) { return kib == 0 ? 0 : std::max(1L, kib / 8) * 4096; };

// Settings of the kind `equal` decide what is sent and which calls are served. If they differed between
// ranks, the ranks would hang.
enum class AcrossRanks { equal, may_differ };

struct Setting {
  std::string name;
  SettingParser parser;
  std::string_view default_value;  // empty: unset
  AcrossRanks across_ranks;
  std::string meaning;
};

std::vector<Setting> all_settings() {
  std::vector<Setting> all;
  for (std::size_t k = 0; k < collectives.size(); ++k) {
    const Collective collective = collective_at(k);
    if (!served_collectives.contain(collective)) continue;
    all.push_back({algorithm_setting(collective), algorithm_parser(collective), "", AcrossRanks::equal,
                   "the algorithm of every MPI_" + std::string(facts_of(collective).function) +
                       "; unset: offbeat chooses"});
  }
  // Too long for the stack of a thread, and never destroyed.
  static const auto& others = *new std::array{
      Setting{
          "OFFBEAT_RULES", text_parser("a file", &Settings::rules), "", AcrossRanks::may_differ,
          "a file of rules that say which algorithm runs where; they come before the built-in rules, and all "
          "ranks must read equal rules"},
      Setting{
          "OFFBEAT_MACHINE", text_parser("a file", &Settings::machine), "", AcrossRanks::may_differ,
          "the machine file from which grid(auto) takes its shape; unset: the machine `cluster` of offbeat "
          "simulate; all ranks must read equal machines"},
      Setting{"OFFBEAT_ADAPT",
              keyword_parser(&Settings::adapt, {{"off", Adapt::off}, {"on", Adapt::on}, {"any", Adapt::any}}),
              "on", AcrossRanks::equal,
              "whether calls measure the alternatives of a rule, A | B; on: if they always give the same "
              "bits; any: "
              "in all rules, so the bits of a reduction may depend on the measurement; off: the first "
              "alternative "
              "runs"},
      Setting{"OFFBEAT_VERBOSE", number_parser(&Settings::verbose, 0, 1), "0", AcrossRanks::may_differ,
              "1: print once, for each collective and range of lengths, which algorithm runs and why (to "
              "standard "
              "error, from one rank)"},
      Setting{"OFFBEAT_REPORT", yes_or_no_parser(&Settings::report), "0", AcrossRanks::may_differ,
              "1: at MPI_Finalize rank 0 prints how many calls were intercepted and how many were served, "
              "how much "
              "time they took and how much of it was waiting, for whom, whether it had to share its core, "
              "and which "
              "command says more"},
      Setting{"OFFBEAT_COUNTERS", yes_or_no_parser(&Settings::counters), "1", AcrossRanks::may_differ,
              "1: each rank times its collectives, keeps counters that `offbeat top` reads while the program "
              "runs, "
              "and "
              "says where it is if others wait for it (unless OFFBEAT_STALL_S=0); 0: it only counts calls"},
      Setting{
          "OFFBEAT_STALL_S", number_parser(&Settings::stall_s, 0, 1'000'000), "60", AcrossRanks::may_differ,
          "seconds that a collective on one node may wait before offbeat prints which ranks have not "
          "arrived; 0: never print, and start no thread that says where this rank is (Python 3.12 and later "
          "warn of threads in os.fork())"},
      Setting{"OFFBEAT_CHECK", yes_or_no_parser(&Settings::check), "0", AcrossRanks::equal,
              "1: before each collective, check that all ranks agree on collective, root, count, type and "
              "operation "
              "(on the bytes if nothing is combined); a mismatch is then an error instead of a hang"},
      Setting{
          "OFFBEAT_WAIT",
          keyword_parser(&Settings::wait, {{"auto", WaitPolicy::automatic},
                                           {"spin", WaitPolicy::spin},
                                           {"yield", WaitPolicy::yield},
                                           {"sleep", WaitPolicy::sleep}}),
          "auto", AcrossRanks::may_differ,
          "how a rank waits for another rank; auto: spin if each rank has a core that no other thread wants, "
          "otherwise yield or sleep"},
      Setting{"OFFBEAT_GPU",
              keyword_parser(&Settings::gpu, {{"stage", GpuPolicy::stage},
                                              {"node", GpuPolicy::node},
                                              {"native", GpuPolicy::native},
                                              {"off", GpuPolicy::off}}),
              "stage", AcrossRanks::equal,
              "what to do with GPU memory; stage: copy it to host memory and back; node: do so on "
              "communicators of "
              "one node, and leave all others to the host MPI; native: leave every call to the host MPI; "
              "off: treat "
              "all memory as host memory"},
      Setting{
          "OFFBEAT_PROGRESS_CPUS", cpu_list_parser(&Settings::progress_cpus), "", AcrossRanks::may_differ,
          "CPUs of each node that the program leaves to offbeat; a thread of each rank advances non-blocking "
          "collectives there; unset: the program's own threads advance them"},
      Setting{
          "OFFBEAT_NODE_RANKS", number_parser(&Settings::node_ranks, 0, 1'000'000), "0", AcrossRanks::equal,
          "for tests on one machine: treat each group of N consecutive ranks as one node; 0: ask the MPI"},
      Setting{"OFFBEAT_NETWORK", network_parser(), "auto", AcrossRanks::equal,
              "what carries the messages of a group between nodes; auto: MPI if every rank has initialised "
              "it with MPI_THREAD_MULTIPLE, otherwise TCP; libfabric: its best provider, or the one named, "
              "such as libfabric:verbs; tcp and libfabric also carry non-blocking collectives of MPI, and a "
              "thread advances them while the program computes"},
      Setting{"OFFBEAT_INTERFACE", name_parser("a network interface, such as eth0", &Settings::interface), "",
              AcrossRanks::may_differ,
              "the interface of this machine that a group uses; unset: the one that the route to MASTER_ADDR "
              "takes"},
      Setting{"OFFBEAT_BOARD_KIB", number_parser(&Settings::window_bytes, 0, 1 << 20, half_in_whole_chunks),
              "2048", AcrossRanks::equal,
              "KiB of shared memory of each rank in each communicator on one node, for all but short "
              "messages; 0: "
              "no shared memory"},
      Setting{"OFFBEAT_MEMORY_MIB", number_parser(&Settings::memory_bytes, 1, 1 << 20, mebibytes), "64",
              AcrossRanks::may_differ,
              "MiB of shared memory of each rank in all communicators together; beyond that, communicators "
              "that are "
              "not in use give theirs back"},
      Setting{"OFFBEAT_CACHE_MIB", number_parser(&Settings::cache_bytes, 0, 1 << 20, mebibytes), "256",
              AcrossRanks::may_differ,
              "MiB of freed scratch memory that each thread keeps for the next call"},
      Setting{
          "OFFBEAT_TRACE", text_parser("a folder", &Settings::trace), "", AcrossRanks::may_differ,
          "the folder in which each rank writes when it arrives at each collective, one file per rank; MPI "
          "calls need liboffbeat-trace, groups and PyTorch do not; files that are there already are not "
          "replaced; unset: no trace"},
      Setting{"OFFBEAT_TRACE_EVERY", number_parser(&Settings::trace_every, 1, 1'000'000'000), "1",
              AcrossRanks::may_differ, "trace one in N calls of each communicator"},
      Setting{"OFFBEAT_TRACE_RANKS_EVERY", number_parser(&Settings::trace_ranks_every, 1, 1'000'000'000), "1",
              AcrossRanks::may_differ, "trace every Nth rank of MPI_COMM_WORLD"},
      Setting{"OFFBEAT_TRACE_COLLECTIVES", collective_list_parser(&Settings::trace_collectives), "",
              AcrossRanks::may_differ, "trace only calls of these collectives; unset: all"},
      Setting{
          "OFFBEAT_TRACE_COMMUNICATORS",
          text_parser("world, numbers of ranks such as 8 or 8..64, and names, with commas between",
                      &Settings::trace_communicators),
          "", AcrossRanks::may_differ,
          "trace only calls on these communicators: world stands for all that have every rank, and a name is "
          "one that the program gave by MPI_Comm_set_name; unset: all"},
      Setting{"OFFBEAT_TRACE_PAUSED", yes_or_no_parser(&Settings::trace_paused), "0", AcrossRanks::may_differ,
              "1: a rank records nothing before it calls MPI_Pcontrol(1)"},
      Setting{"OFFBEAT_TRACE_MIB", number_parser(&Settings::trace_bytes, 1, 1 << 20, mebibytes), "1024",
              AcrossRanks::may_differ, "the largest size of the trace of one rank, in MiB"},
  };
  all.insert(all.end(), std::begin(others), std::end(others));
  return all;
}

// The table is made at its first use and never destroyed.
const std::vector<Setting>& setting_table() {
  static const auto* made = new std::vector<Setting>(all_settings());
  return *made;
}

// Returns null if there is no such setting.
const Setting* setting_named(std::string_view name) {
  for (const Setting& setting : setting_table()) {
    if (setting.name == name) return &setting;
  }
  return nullptr;
}

// Returns true for names that the module files of clusters define for every package, such as OFFBEAT_ROOT.
bool is_of_module_file(std::string_view name) {
  static constexpr std::string_view of_modules[] = {"ROOT",    "DIR",    "HOME", "BASE",  "PREFIX", "PATH",
                                                    "VERSION", "BIN",    "LIB",  "LIB64", "LIBDIR", "INC",
                                                    "INCLUDE", "INCDIR", "DOC",  "MAN"};
  name.remove_prefix(variable_prefix.size());
  return std::find(std::begin(of_modules), std::end(of_modules), name) != std::end(of_modules);
}

}  // namespace

std::string algorithm_setting(Collective collective) {
  std::string name(variable_prefix);
  for (const char letter : name_of(collective)) {
    name += letter >= 'a' && letter <= 'z' ? static_cast<char>(letter - 'a' + 'A') : letter;
  }
  return name;
}

Settings::Settings() {
  for (const Setting& setting : setting_table()) setting.parser.set_field(*this, setting.default_value);
}

Settings Settings::from_environment() {
  Settings settings;
  for (char** entry = environ; entry != nullptr && *entry != nullptr; ++entry) {
    const std::string_view text(*entry);
    if (!text.starts_with(variable_prefix)) continue;
    const std::size_t equals = text.find('=');
    const std::string_view name = text.substr(0, equals);
    const Setting* known = setting_named(name);
    if (known == nullptr) continue;  // unknown_settings() reports it
    // A variable that is set but empty counts as unset, because some launchers cannot remove a variable.
    if (equals + 1 >= text.size()) continue;
    const std::string_view value = text.substr(equals + 1);
    if (!known->parser.set_field(settings, value)) {
      throw UsageError(known->name + "='" + printable(value) +
                       "' is not understood; values: " + known->parser.values);
    }
  }
  return settings;
}

std::string unknown_settings() {
  constexpr int most_named = 4;
  std::vector<std::string_view> names;
  for (const Setting& setting : setting_table())
    names.push_back(std::string_view(setting.name).substr(variable_prefix.size()));
  std::string list;
  int count = 0;
  for (char** entry = environ; entry != nullptr && *entry != nullptr; ++entry) {
    const std::string_view text(*entry);
    const std::string_view name = text.substr(0, text.find('='));
    if (!name.starts_with(variable_prefix) || setting_named(name) != nullptr || is_of_module_file(name))
      continue;
    if (++count > most_named) continue;
    list += (list.empty() ? "" : ", ") + printable(name);
    // A longer name is no typing error, and comparing it would take too long.
    const std::string_view meant =
        name.size() < 64 ? most_similar(name.substr(variable_prefix.size()), names) : std::string_view();
    if (!meant.empty()) list += " (did you mean " + std::string(variable_prefix) + std::string(meant) + "?)";
  }
  if (count == 0) return {};
  if (count > most_named) list += " and " + std::to_string(count - most_named) + " more";
  return std::string(count == 1 ? "this is not a setting of offbeat: "
                                : "these are not settings of offbeat: ") +
         list + "; `offbeat info --settings` lists them all";
}

std::uint64_t Settings::agreement() const {
  std::string shared;
  for (const Setting& setting : setting_table()) {
    if (setting.across_ranks == AcrossRanks::equal) shared += setting.parser.text(*this) + '\0';
  }
  return fnv1a(shared);
}

std::vector<SettingDescription> setting_descriptions() {
  std::vector<SettingDescription> all;
  for (const Setting& setting : setting_table()) {
    all.push_back({setting.name, std::string(setting.default_value), setting.parser.values, setting.meaning,
                   setting.across_ranks == AcrossRanks::equal});
  }
  return all;
}

std::string preload_environment() {
  std::string lines;
  bool has_preload = false;
  for (char** entry = environ; entry != nullptr && *entry != nullptr; ++entry) {
    const std::string_view text(*entry);
    const bool is_preload = text.starts_with("LD_PRELOAD=");
    if (!is_preload && !text.starts_with(variable_prefix)) continue;
    has_preload = has_preload || is_preload;
    lines += (lines.empty() ? "" : "\n") + std::string(text);
  }
  return has_preload ? lines : std::string();
}

}  // namespace offbeat
