// SPDX-License-Identifier: BSD-3-Clause
#include "mpi/host/host_variables.hpp"

#include <algorithm>
#include <array>
#include <cctype>
#include <cstdlib>
#include <cstring>
#include <utility>

#include "base/collective.hpp"
#include "selection/selection.hpp"

namespace offbeat {
namespace {

std::string upper_case(std::string_view text) {
  std::string upper(text);
  for (char& c : upper) c = static_cast<char>(std::toupper(static_cast<unsigned char>(c)));
  return upper;
}

std::string call_of(const HostAlgorithm& algorithm) {
  return (algorithm.is_nonblocking ? "i" : "") + std::string(name_of(algorithm.collective));
}

constexpr const char* open_mpi_switch = "OMPI_MCA_coll_tuned_use_dynamic_rules";

// Returns true if the host is the first release of a series, such as "Open MPI v4.1.0", or one up to `last`.
bool is_up_to(const Host& host, std::string release, char last) {
  for (; release.back() <= last; ++release.back()) {
    if (host.has_version_text_prefix(release + ",") || host.has_version_text_prefix(release + " "))
      return true;
  }
  return false;
}

// Open MPI 4.1.0 to 4.1.6 and 5.0.0 to 5.0.5 read the switch only when they start. If it is on, but no
// algorithm is named, the component makes its usual choices.
bool reads_switch_at_start(const Host& host) {
  return is_up_to(host, "Open MPI v4.1.0", '6') || is_up_to(host, "Open MPI v5.0.0", '5');
}

// In place, the ring of MPI_Iallreduce gave wrong sums before Open MPI 4.1.2 (open-mpi/ompi#9385). Short
// vectors for which Rabenseifner's algorithm was named took the ring, too. In 4.1.2 vectors above 2 GiB still
// had wrong offsets (open-mpi/ompi#10082).
bool has_wrong_nonblocking_ring(const Host& host) {
  return host.has_version_text_prefix("Open MPI v4.0.") || is_up_to(host, "Open MPI v4.1.0", '2');
}

std::string intel_variable(const HostAlgorithm& algorithm) {
  return "I_MPI_ADJUST_" + upper_case(call_of(algorithm));
}

std::string version_of(const Host& host) {
  const HostFunction<decltype(PMPI_Get_library_version)> version(host.find("PMPI_Get_library_version"));
  std::string text(MPI_MAX_LIBRARY_VERSION_STRING, '\0');
  int length = 0;
  if (!version || version(text.data(), &length) != MPI_SUCCESS) return "this MPI";
  const std::string_view whole(text.c_str());
  const std::string_view first_line = whole.substr(0, whole.find_first_of(",\n"));
  std::string name;  // white space becomes one blank, without "Version:"
  for (std::size_t begin = 0; begin < first_line.size();) {
    const std::size_t end = std::min(first_line.find_first_of(" \t", begin), first_line.size());
    const std::string_view word = first_line.substr(begin, end - begin);
    if (!word.empty() && word != "Version:") name += (name.empty() ? "" : " ") + std::string(word);
    begin = end + 1;
  }
  return name;
}

}  // namespace

void HostVariables::prepare(const Host& host, const Selection& selection) {
  int is_initialized = 0;
  if (!selection.names_host_algorithms() || host.Initialized(&is_initialized) != MPI_SUCCESS ||
      is_initialized != 0)
    return;
  if (host.mpi == HostMpi::open_mpi && reads_switch_at_start(host)) setenv(open_mpi_switch, "1", 0);
  if (host.mpi != HostMpi::intel) return;
  for (const HostAlgorithm& each : host_algorithms()) {
    if (each.host != host.mpi || !each.may_be_named) continue;
    const UserChoice* choice = selection.choice(each.collective);
    if (choice == nullptr || choice->expression->host_algorithm() != each.name) continue;
    const Expression& chosen = *choice->expression;
    // A name would also hold for a part without one, or with another one.
    const auto has_name = [&](const Expression& part) { return part.name_in_host == each.name; };
    if (!std::ranges::all_of(chosen.parts, has_name)) continue;
    const bool is_pipeline = !chosen.is_native() && !chosen.is_host_grid();
    if (!each.is_nonblocking && is_pipeline) continue;
    setenv(intel_variable(each).c_str(), std::to_string(each.number).c_str(), 0);
  }
}

HostVariables::HostVariables(const Host& host)
    : host_(host),
      write_(host.find("PMPI_T_cvar_write")),
      read_(host.find("PMPI_T_cvar_read")),
      offer_(nameable_algorithms_of_any_version(host.mpi)) {
  offer_.algorithms.clear();
  offer_.host = version_of(host);
  if (host.mpi == HostMpi::intel) {
    find_intel();
    return;
  }
  if (!offer_.reason_for_none.empty()) return;
  const HostFunction<decltype(PMPI_Query_thread)> query(host.find("PMPI_Query_thread"));
  int threads = MPI_THREAD_MULTIPLE;
  if (!query || query(&threads) != MPI_SUCCESS || threads == MPI_THREAD_MULTIPLE) {
    offer_.reason_for_none = "the program uses MPI_THREAD_MULTIPLE";
    return;
  }
  const HostFunction<decltype(PMPI_T_init_thread)> init(host.find("PMPI_T_init_thread"));
  int provided = 0;
  has_begun_ = init && write_ && read_ && init(threads, &provided) == MPI_SUCCESS;
  if (!has_begun_) {
    offer_.reason_for_none = "it has no MPI_T";
    return;
  }
  previous_value_.reserve(2 * collectives.size());
  if (host.mpi == HostMpi::open_mpi) find_open_mpi();
  if (host.mpi == HostMpi::mpich) find_mpich();
  if (offer_.algorithms.empty() && offer_.reason_for_none.empty())
    offer_.reason_for_none = "it does not let offbeat choose";
}

std::optional<MPI_T_cvar_handle> HostVariables::variable(const std::string& name) const {
  const HostFunction<decltype(PMPI_T_cvar_get_index)> get_index(host_.find("PMPI_T_cvar_get_index"));
  const HostFunction<decltype(PMPI_T_cvar_handle_alloc)> allocate(host_.find("PMPI_T_cvar_handle_alloc"));
  int index = 0;
  int count = 0;
  MPI_T_cvar_handle handle{};
  if (!get_index || !allocate || get_index(name.c_str(), &index) != MPI_SUCCESS ||
      allocate(index, nullptr, &handle, &count) != MPI_SUCCESS || count != 1)
    return std::nullopt;
  // What is there can always be written, if anything can.
  int value = 0;
  if (read_(handle, &value) != MPI_SUCCESS || write_(handle, &value) != MPI_SUCCESS) return std::nullopt;
  return handle;
}

std::string HostVariables::description(const std::string& name) const {
  const HostFunction<decltype(PMPI_T_cvar_get_index)> get_index(host_.find("PMPI_T_cvar_get_index"));
  const HostFunction<decltype(PMPI_T_cvar_get_info)> get_info(host_.find("PMPI_T_cvar_get_info"));
  int index = 0;
  if (!get_index || !get_info || get_index(name.c_str(), &index) != MPI_SUCCESS) return {};
  std::string text(std::size_t{1} << 16, '\0');
  int length = static_cast<int>(text.size());
  int verbosity = 0;
  int binding = 0;
  int scope = 0;
  MPI_Datatype type{};
  MPI_T_enum enumeration{};
  if (get_info(index, nullptr, nullptr, &verbosity, &type, &enumeration, text.data(), &length, &binding,
               &scope) != MPI_SUCCESS)
    return {};
  text.resize(std::strlen(text.c_str()));
  return text;
}

std::optional<int> HostVariables::value_in_enumeration(const std::string& name,
                                                       std::string_view spelling) const {
  const HostFunction<decltype(PMPI_T_cvar_get_index)> get_index(host_.find("PMPI_T_cvar_get_index"));
  const HostFunction<decltype(PMPI_T_cvar_get_info)> get_info(host_.find("PMPI_T_cvar_get_info"));
  const HostFunction<decltype(PMPI_T_enum_get_info)> enum_info(host_.find("PMPI_T_enum_get_info"));
  const HostFunction<decltype(PMPI_T_enum_get_item)> item(host_.find("PMPI_T_enum_get_item"));
  int index = 0;
  int verbosity = 0;
  int binding = 0;
  int scope = 0;
  MPI_Datatype type{};
  MPI_T_enum enumeration = MPI_T_ENUM_NULL;
  if (!get_index || !get_info || !enum_info || !item || get_index(name.c_str(), &index) != MPI_SUCCESS ||
      get_info(index, nullptr, nullptr, &verbosity, &type, &enumeration, nullptr, nullptr, &binding,
               &scope) != MPI_SUCCESS ||
      enumeration == MPI_T_ENUM_NULL)
    return std::nullopt;
  std::array<char, 256> text{};
  int length = text.size();
  int count = 0;
  if (enum_info(enumeration, &count, text.data(), &length) != MPI_SUCCESS) return std::nullopt;
  for (int k = 0; k < count; ++k) {
    int value = 0;
    length = text.size();
    if (item(enumeration, k, &value, text.data(), &length) == MPI_SUCCESS && spelling == text.data())
      return value;
  }
  return std::nullopt;
}

void HostVariables::offer(const HostAlgorithm& algorithm, MPI_T_cvar_handle choice, int value,
                          std::optional<MPI_T_cvar_handle> switch_variable, int switch_value) {
  offer_.algorithms.push_back(&algorithm);
  variables_of_algorithms_.push_back({&algorithm, choice, value, switch_variable, switch_value});
}

void HostVariables::find_open_mpi() {
  const std::string switch_name = "coll_tuned_use_dynamic_rules";
  int is_on = 0;
  const auto switch_variable = variable(switch_name);
  if (!switch_variable) {
    // Before 4.1.7 and 5.0.6 the switch can be read but not written.
    const HostFunction<decltype(PMPI_T_cvar_get_index)> get_index(host_.find("PMPI_T_cvar_get_index"));
    const HostFunction<decltype(PMPI_T_cvar_handle_alloc)> allocate(host_.find("PMPI_T_cvar_handle_alloc"));
    int index = 0;
    int count = 0;
    MPI_T_cvar_handle handle{};
    const bool is_read = get_index && allocate && get_index(switch_name.c_str(), &index) == MPI_SUCCESS &&
                         allocate(index, nullptr, &handle, &count) == MPI_SUCCESS &&
                         read_(handle, &is_on) == MPI_SUCCESS;
    if (!is_read || is_on == 0)
      offer_.reason_for_no_blocking =
          "it has to start with " + std::string(open_mpi_switch) + "=1 in the environment";
  }
  // The switch belongs to the component of blocking calls.
  const bool takes_blocking = offer_.reason_for_no_blocking.empty();
  const bool takes_nonblocking = !has_wrong_nonblocking_ring(host_);
  for (const HostAlgorithm& each : host_algorithms()) {
    if (each.host != HostMpi::open_mpi || !each.may_be_named ||
        !(each.is_nonblocking ? takes_nonblocking : takes_blocking))
      continue;
    const std::string component = each.is_nonblocking ? "coll_libnbc_" : "coll_tuned_";
    const std::string name = component + call_of(each) + "_algorithm";
    const auto choice = variable(name);
    auto value = value_in_enumeration(name, each.name_in_host_mpi);
    if (!value && !each.later_name.empty()) value = value_in_enumeration(name, each.later_name);
    const auto switched = each.is_nonblocking ? std::nullopt : switch_variable;
    if (choice && value) offer(each, *choice, *value, switched, 1);
  }
}

void HostVariables::find_mpich() {
  for (const HostAlgorithm& each : host_algorithms()) {
    if (each.host != HostMpi::mpich || !each.may_be_named) continue;
    std::vector<std::string_view> known{"auto", "sched_auto", "tsp_auto"};
    for (const HostAlgorithm& other : host_algorithms()) {
      if (other.host == each.host && other.collective == each.collective &&
          other.is_nonblocking == each.is_nonblocking)
        known.push_back(other.name_in_host_mpi);
    }
    const std::string prefix = "MPIR_CVAR_" + upper_case(call_of(each));
    const auto choice = variable(prefix + "_INTRA_ALGORITHM");
    const auto value =
        position_in_description(description(prefix + "_INTRA_ALGORITHM"), each.name_in_host_mpi, known);
    // On one node the device would answer first, with its own algorithm.
    const auto device = variable(prefix + "_DEVICE_COLLECTIVE");
    if (choice && value && device) offer(each, *choice, *value, device, 0);
  }
}

void HostVariables::find_intel() {
  for (const HostAlgorithm& each : host_algorithms()) {
    if (each.host != HostMpi::intel || !each.may_be_named) continue;
    const char* told = std::getenv(intel_variable(each).c_str());
    if (told != nullptr && told == std::to_string(each.number)) offer_.algorithms.push_back(&each);
  }
}

void HostVariables::write(MPI_T_cvar_handle variable, int value) {
  int before = 0;
  read_(variable, &before);
  if (before == value) return;
  previous_value_.push_back({variable, before});
  write_(variable, &value);
}

void HostVariables::set(const HostAlgorithm& algorithm) {
  const auto way = std::ranges::find(variables_of_algorithms_, &algorithm, &AlgorithmVariables::algorithm);
  if (way == variables_of_algorithms_.end()) return;  // the environment has told Intel MPI
  if (way->switch_variable) write(*way->switch_variable, way->switch_value);
  write(way->choice_variable, way->value);
}

void HostVariables::restore() {
  for (; !previous_value_.empty(); previous_value_.pop_back())
    write_(previous_value_.back().variable, &previous_value_.back().value);
}

void HostVariables::end() {
  if (!std::exchange(has_begun_, false)) return;
  const HostFunction<decltype(PMPI_T_finalize)> finalize(host_.find("PMPI_T_finalize"));
  restore();
  variables_of_algorithms_.clear();
  offer_.algorithms.clear();
  if (finalize) finalize();
}

}  // namespace offbeat
