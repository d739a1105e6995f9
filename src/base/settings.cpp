// SPDX-License-Identifier: BSD-3-Clause
#include "base/settings.hpp"

#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <cstdlib>
#include <functional>
#include <initializer_list>
#include <iterator>
#include <string>
#include <string_view>
#include <utility>

#include "base/error.hpp"
#include "base/hash.hpp"
#include "base/log.hpp"
#include "base/similar.hpp"

extern char** environ;  // NOLINT(readability-redundant-declaration): not in every libc's unistd.h

namespace offbeat {
namespace {

constexpr std::string_view prefix = "OFFBEAT_";

// How the text of a variable becomes a field.
struct Parser {
  std::string values;  // what it takes, for people
  // False: the text is not understood.
  std::function<bool(Settings&, std::string_view)> store;
  // The field again, equal for texts that mean the same.
  std::function<std::string(const Settings&)> text;
};

Parser any_text(std::string values, std::string Settings::*field) {
  return {std::move(values),
          [=](Settings& settings, std::string_view text) {
            settings.*field = text;
            return true;
          },
          [=](const Settings& settings) { return settings.*field; }};
}

Parser algorithm_of(Collective collective) {
  const std::size_t index = index_of(collective);
  // It is parsed where the algorithms are known.
  return {"an algorithm expression, such as native",
          [=](Settings& settings, std::string_view text) {
            settings.algorithms[index] = text;
            return true;
          },
          [=](const Settings& settings) { return settings.algorithms[index]; }};
}

// `convert` makes the field of the number.
template <class Field, class Convert>
Parser number(Field Settings::*field, long least, long most, Convert convert) {
  return {std::to_string(least) + (most == least + 1 ? ", " : " to ") + std::to_string(most),
          [=](Settings& settings, std::string_view text) {
            long value = 0;
            const char* const end = text.data() + text.size();
            const auto [read_to, error] = std::from_chars(text.data(), end, value);
            if (error != std::errc() || read_to != end || value < least || value > most) return false;
            settings.*field = static_cast<Field>(convert(value));
            return true;
          },
          [=](const Settings& settings) { return std::to_string(settings.*field); }};
}
template <class Field>
Parser number(Field Settings::*field, long least, long most) {
  return number(field, least, most, [](long value) { return value; });
}
Parser yes_or_no(bool Settings::*field) { return number(field, 0, 1); }

template <class Field>
struct Word {
  std::string_view text;
  Field value;
};
template <class Field>
Parser one_of(Field Settings::*field, std::vector<Word<Field>> words) {
  std::string values;
  for (const Word<Field>& word : words) values += (values.empty() ? "" : ", ") + std::string(word.text);
  return {std::move(values),
          [=](Settings& settings, std::string_view text) {
            const auto found = std::find_if(words.begin(), words.end(),
                                            [&](const Word<Field>& word) { return word.text == text; });
            if (found == words.end()) return false;
            settings.*field = found->value;
            return true;
          },
          [=](const Settings& settings) { return std::to_string(static_cast<int>(settings.*field)); }};
}

// As in taskset: numbers and ranges. False: it is none, or names CPUs that Linux cannot have.
bool read_cpus(std::string_view text, std::vector<int>& cpus) {
  constexpr int most = 1 << 16;
  cpus.clear();
  for (const char* at = text.data(); at != text.data() + text.size();) {
    const char* const end = text.data() + text.size();
    int first = 0;
    auto read = std::from_chars(at, end, first);
    int last = first;
    if (read.ec == std::errc() && read.ptr != end && *read.ptr == '-')
      read = std::from_chars(read.ptr + 1, end, last);
    if (read.ec != std::errc() || first < 0 || last < first || last >= most) return false;
    for (int cpu = first; cpu <= last; ++cpu) cpus.push_back(cpu);
    if (cpus.size() > most) return false;
    if (read.ptr != end && (*read.ptr != ',' || read.ptr + 1 == end)) return false;
    at = read.ptr == end ? end : read.ptr + 1;
  }
  return true;
}

Parser list_of_cpus(std::vector<int> Settings::*field) {
  return {"numbers and ranges as for taskset, 14,48-63",
          [=](Settings& settings, std::string_view text) { return read_cpus(text, settings.*field); },
          [=](const Settings& settings) {
            std::string text;
            for (const int cpu : settings.*field) text += std::to_string(cpu) + ",";
            return text;
          }};
}

constexpr auto mebibytes = [](long count) { return count << 20; };
// Half of so many KiB, in whole pages of 4 KiB.
constexpr auto half_in_pages = [](long kib) { return kib == 0 ? 0 : std::max(1L, kib / 8) * 4096; };

// What is sent, and where a call goes, follows from the first kind: ranks that differ in it would hang.
enum class OnRanks { equal, may_differ };

struct Setting {
  std::string name;
  Parser parser;
  std::string_view default_value;  // empty: unset
  OnRanks on_ranks;
  std::string meaning;
};

std::vector<Setting> all_settings() {
  std::vector<Setting> all;
  for (std::size_t k = 0; k < collectives.size(); ++k) {
    const Collective collective = collective_at(k);
    if (!served.contain(collective)) continue;
    all.push_back({algorithm_setting(collective), algorithm_of(collective), "", OnRanks::equal,
                   "the algorithm of every MPI_" + std::string(facts(collective).function) +
                       "; unset: offbeat chooses"});
  }
  const Setting others[] = {
      {"OFFBEAT_RULES", any_text("a file", &Settings::rules), "", OnRanks::may_differ,
       "rules that come before the built-in ones and say which algorithm runs where; every rank reads them, "
       "and "
       "they must be the same on all ranks"},
      {"OFFBEAT_VERBOSE", number(&Settings::verbose, 0, 1), "0", OnRanks::may_differ,
       "1: say once for each collective and range of lengths which algorithm runs and why (standard error, "
       "one rank)"},
      {"OFFBEAT_REPORT", yes_or_no(&Settings::report), "0", OnRanks::may_differ,
       "1: at MPI_Finalize rank 0 says how many calls were intercepted and served"},
      {"OFFBEAT_STALL_S", number(&Settings::stall_s, 0, 1'000'000), "60", OnRanks::may_differ,
       "say which ranks have not arrived when a collective on one node waits longer than this, in seconds; "
       "0: never"},
      {"OFFBEAT_CHECK", yes_or_no(&Settings::check), "0", OnRanks::equal,
       "1: compare collective, root, count, type and operation of all ranks before each collective, or its "
       "bytes where nothing is combined; a mismatch is an error, not a hang"},
      {"OFFBEAT_WAIT",
       one_of(&Settings::wait, {{"auto", WaitPolicy::automatic},
                                {"spin", WaitPolicy::spin},
                                {"yield", WaitPolicy::yield},
                                {"sleep", WaitPolicy::sleep}}),
       "auto", OnRanks::may_differ,
       "how a rank waits for another; auto spins where each rank has a core that no other thread wants, and "
       "otherwise yields or sleeps"},
      {"OFFBEAT_GPU",
       one_of(&Settings::gpu,
              {{"stage", GpuPolicy::stage}, {"native", GpuPolicy::native}, {"off", GpuPolicy::off}}),
       "stage", OnRanks::equal,
       "what to do with GPU memory; stage: copy it to host memory and back; native: leave every call to the "
       "MPI; off: take all memory for host memory"},
      {"OFFBEAT_PROGRESS_CPUS", list_of_cpus(&Settings::progress_cpus), "", OnRanks::may_differ,
       "CPUs of each node that the program leaves to offbeat: a thread of each rank does the work of "
       "non-blocking collectives there; unset: the program's own threads do"},
      {"OFFBEAT_NODE_RANKS", number(&Settings::node_ranks, 0, 1'000'000), "0", OnRanks::equal,
       "for tests on one machine: treat every so many consecutive ranks as a node; 0: ask the MPI"},
      {"OFFBEAT_BOARD_KIB", number(&Settings::window_bytes, 0, 1 << 20, half_in_pages), "2048",
       OnRanks::equal,
       "shared memory of a rank for each communicator on one node, for all but short messages; 0: no shared "
       "memory"},
      {"OFFBEAT_MEMORY_MIB", number(&Settings::memory_bytes, 1, 1 << 20, mebibytes), "64",
       OnRanks::may_differ,
       "shared memory of a rank for all communicators together, beyond which those that are not in use give "
       "theirs back"},
      {"OFFBEAT_CACHE_MIB", number(&Settings::cache_bytes, 0, 1 << 20, mebibytes), "256", OnRanks::may_differ,
       "how much freed scratch memory a thread keeps for the next call"},
      {"OFFBEAT_TRACE", any_text("a folder", &Settings::trace), "", OnRanks::may_differ,
       "where liboffbeat-trace writes who arrives when, one file for each rank; unset: nowhere"},
      {"OFFBEAT_TRACE_EVERY", number(&Settings::trace_every, 1, 1'000'000'000), "1", OnRanks::may_differ,
       "trace every so many calls of each communicator"},
      {"OFFBEAT_TRACE_RANKS_EVERY", number(&Settings::trace_ranks_every, 1, 1'000'000'000), "1",
       OnRanks::may_differ, "trace every so many ranks of MPI_COMM_WORLD"},
      {"OFFBEAT_TRACE_MIB", number(&Settings::trace_bytes, 2, 1 << 20, mebibytes), "1024",
       OnRanks::may_differ, "the longest that the trace of one rank becomes, in MiB"},
  };
  all.insert(all.end(), std::begin(others), std::end(others));
  return all;
}

// Made at the first use, and kept when the process exits.
const std::vector<Setting>& table() {
  static const auto* made = new std::vector<Setting>(all_settings());
  return *made;
}

// Returns null if there is no such setting.
const Setting* setting_named(std::string_view name) {
  for (const Setting& setting : table()) {
    if (setting.name == name) return &setting;
  }
  return nullptr;
}

// Whether this is a name that the module files of clusters define for every package, such as OFFBEAT_ROOT.
bool is_of_module_file(std::string_view name) {
  static constexpr std::string_view of_modules[] = {"ROOT",    "DIR",    "HOME", "BASE",  "PREFIX", "PATH",
                                                    "VERSION", "BIN",    "LIB",  "LIB64", "LIBDIR", "INC",
                                                    "INCLUDE", "INCDIR", "DOC",  "MAN"};
  name.remove_prefix(prefix.size());
  return std::find(std::begin(of_modules), std::end(of_modules), name) != std::end(of_modules);
}

int first_number(std::initializer_list<const char*> names, int otherwise) {
  for (const char* name : names) {
    if (const char* value = std::getenv(name)) return std::atoi(value);
  }
  return otherwise;
}

}  // namespace

std::string algorithm_setting(Collective collective) {
  std::string name(prefix);
  for (const char letter : name_of(collective)) {
    name += letter >= 'a' && letter <= 'z' ? static_cast<char>(letter - 'a' + 'A') : letter;
  }
  return name;
}

Settings::Settings() {
  for (const Setting& setting : table()) setting.parser.store(*this, setting.default_value);
}

Settings Settings::from_environment() {
  Settings settings;
  for (char** entry = environ; entry != nullptr && *entry != nullptr; ++entry) {
    const std::string_view text(*entry);
    if (!text.starts_with(prefix)) continue;
    const std::size_t equals = text.find('=');
    const std::string_view name = text.substr(0, equals);
    const Setting* known = setting_named(name);
    if (known == nullptr) continue;  // unknown_settings() has it
    // Set but empty is unset: launchers cannot always remove a variable.
    if (equals + 1 >= text.size()) continue;
    const std::string_view value = text.substr(equals + 1);
    if (!known->parser.store(settings, value)) {
      throw UsageError(known->name + "='" + printable(value) +
                       "' is not understood; values: " + known->parser.values);
    }
  }
  return settings;
}

std::string unknown_settings() {
  constexpr int most_named = 4;
  std::vector<std::string_view> names;
  for (const Setting& setting : table())
    names.push_back(std::string_view(setting.name).substr(prefix.size()));
  std::string list;
  int count = 0;
  for (char** entry = environ; entry != nullptr && *entry != nullptr; ++entry) {
    const std::string_view text(*entry);
    const std::string_view name = text.substr(0, text.find('='));
    if (!name.starts_with(prefix) || setting_named(name) != nullptr || is_of_module_file(name)) continue;
    if (++count > most_named) continue;
    list += (list.empty() ? "" : ", ") + printable(name);
    // A longer name is no typo, and comparing it would take too long.
    const std::string_view meant =
        name.size() < 64 ? most_similar(name.substr(prefix.size()), names) : std::string_view();
    if (!meant.empty()) list += " (did you mean " + std::string(prefix) + std::string(meant) + "?)";
  }
  if (count == 0) return {};
  if (count > most_named) list += " and " + std::to_string(count - most_named) + " more";
  return std::string(count == 1 ? "this is no setting of offbeat: " : "these are no settings of offbeat: ") +
         list + "; `offbeat info --settings` lists them all";
}

std::uint64_t Settings::agreement() const {
  std::string shared;
  for (const Setting& setting : table()) {
    if (setting.on_ranks == OnRanks::equal) shared += setting.parser.text(*this) + '\0';
  }
  return fnv1a(shared);
}

std::vector<SettingDescription> setting_descriptions() {
  std::vector<SettingDescription> all;
  for (const Setting& setting : table()) {
    all.push_back({setting.name, std::string(setting.default_value), setting.parser.values, setting.meaning,
                   setting.on_ranks == OnRanks::equal});
  }
  return all;
}

int launcher_rank(std::string_view family) {
  if (family == "openmpi")
    return first_number({"OMPI_COMM_WORLD_RANK", "PMIX_RANK", "PMI_RANK", "SLURM_PROCID"}, 0);
  return first_number({"PMI_RANK", "OMPI_COMM_WORLD_RANK", "PMIX_RANK", "SLURM_PROCID"}, 0);
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
