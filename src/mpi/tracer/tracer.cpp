// SPDX-License-Identifier: BSD-3-Clause
#include "mpi/tracer/tracer.hpp"

#include <sys/random.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <cstring>
#include <limits>

#include "base/error.hpp"
#include "base/line_of_node.hpp"
#include "base/own_floating_point.hpp"
#include "mpi/host/clock_messenger.hpp"
#include "mpi/host/exit_with.hpp"
#include "mpi/tracer/c_interface.hpp"
#include "node/device_memory.hpp"
#include "trace/communicator_filter.hpp"
#include "trace/header.hpp"

namespace offbeat::trace {

std::atomic<Tracer*> the_tracer{nullptr};

namespace {

// Makes a communicator from the group of MPI_COMM_WORLD, because MPI_Comm_dup would copy the program's
// attributes.
MPI_Comm private_communicator(const Host& host) {
  MPI_Group group;
  MPI_Comm made = MPI_COMM_NULL;
  host.Comm_group(MPI_COMM_WORLD, &group);
  const int code = host.Comm_create(MPI_COMM_WORLD, group, &made);
  host.Group_free(&group);
  if (code != MPI_SUCCESS) throw CommunicationError("no communicator for the tracer", code);
  host.Comm_set_errhandler(made, MPI_ERRORS_RETURN);
  return made;
}

// Returns a random number that is equal on all ranks.
std::uint64_t random_number(const Host& host, MPI_Comm communicator) {
  std::uint64_t number = 0;
  static_cast<void>(!getrandom(&number, sizeof number, 0));
  host.Bcast(&number, sizeof number, MPI_BYTE, 0, communicator);
  return number;
}

std::string hexadecimal(std::uint64_t number) {
  std::array<char, 16> digits{};
  const auto end = std::to_chars(digits.data(), digits.data() + digits.size(), number, 16).ptr;
  return {digits.data(), end};
}

// Returns the folder of this job's trace files. A spawned job has its own ranks 0, 1, ..., so it gets its own
// folder inside the folder of its parents.
std::string folder_of_job(const std::string& folder, std::uint64_t run) {
  MPI_Comm parent = MPI_COMM_NULL;
  host_function<"PMPI_Comm_get_parent", decltype(PMPI_Comm_get_parent)>()(&parent);
  return parent == MPI_COMM_NULL ? folder : folder + "/spawned-" + hexadecimal(run);
}

bool is_threaded() {
  int provided = MPI_THREAD_SINGLE;
  host_function<"PMPI_Query_thread", decltype(PMPI_Query_thread)>()(&provided);
  return provided == MPI_THREAD_MULTIPLE;
}

std::string mpi_version() {
  char text[MPI_MAX_LIBRARY_VERSION_STRING] = "";
  int length = 0;
  host_function<"PMPI_Get_library_version", decltype(PMPI_Get_library_version)>()(text, &length);
  return {text, std::strcspn(text, "\n,")};
}

std::uint64_t mix_hash(std::uint64_t hash, std::uint64_t value) {  // the finaliser of SplitMix64
  std::uint64_t x = hash + 0x9E3779B97F4A7C15ULL + value;
  x = (x ^ (x >> 30)) * 0xBF58476D1CE4E5B9ULL;
  x = (x ^ (x >> 27)) * 0x94D049BB133111EBULL;
  return x ^ (x >> 31);
}

std::uint64_t hash_of(const std::vector<int>& ranks) {
  std::uint64_t hash = ranks.size();
  for (const int rank : ranks) hash = mix_hash(hash, static_cast<std::uint64_t>(rank));
  return hash;
}

constexpr std::uint32_t max_small_number = std::numeric_limits<std::uint8_t>::max();
constexpr std::uint32_t most_types = std::numeric_limits<std::uint16_t>::max();

}  // namespace

Tracer::Tracer(const LowerLayers& below, const Settings& settings)
    : host_(below.host),
      record_every_(settings.trace_every),
      rank_(host_.rank_in(MPI_COMM_WORLD)),
      ranks_(host_.size_of(MPI_COMM_WORLD)),
      records_(rank_ % settings.trace_ranks_every == 0),
      recorded_collectives_(records_ ? settings.trace_collectives : Collectives()),
      communicators_filter_(settings.trace_communicators),
      is_threaded_(is_threaded()),
      private_communicator_(private_communicator(host_)),
      run_(random_number(host_, private_communicator_)),
      writer_(rank_file_path(folder_of_job(settings.trace, run_), rank_), window_bytes,
              settings.trace_bytes) {
  keep_out_of_an_earlier_trace();
  if (!writer_.failure().empty()) say_once_on_node("not traced: " + writer_.failure());
  predefined_operations_ = {
      {MPI_MAX, "MPI_MAX"},         {MPI_MIN, "MPI_MIN"},       {MPI_SUM, "MPI_SUM"},
      {MPI_PROD, "MPI_PROD"},       {MPI_LAND, "MPI_LAND"},     {MPI_BAND, "MPI_BAND"},
      {MPI_LOR, "MPI_LOR"},         {MPI_BOR, "MPI_BOR"},       {MPI_LXOR, "MPI_LXOR"},
      {MPI_BXOR, "MPI_BXOR"},       {MPI_MINLOC, "MPI_MINLOC"}, {MPI_MAXLOC, "MPI_MAXLOC"},
      {MPI_REPLACE, "MPI_REPLACE"}, {MPI_NO_OP, "MPI_NO_OP"},
  };
  devices::look_for_drivers();  // BitVector must not read their memory
  const bool is_partial = settings.trace_collectives.count() < static_cast<int>(collectives.size()) ||
                          !communicators_filter_.empty();
  fill_header(writer_.header(),
              {.rank = rank_,
               .ranks = ranks_,
               .run = run_,
               .records = records_,
               .is_partial = is_partial,
               .mpi = mpi_version(),
               .clock = to_stored_clock(synchronise_clock())},
              settings);
  pause(settings.trace_paused);
  add_communicator(MPI_COMM_WORLD, null_communicator_, false);
  add_communicator(MPI_COMM_SELF, null_communicator_, false);
}

// If one rank finds a file, no rank writes: nobody could read two runs in one folder. A rank that cannot
// write for another reason is missing from the trace, but takes part in the collectives of the tracers.
void Tracer::keep_out_of_an_earlier_trace() {
  const int has_found_a_file = writer_.has_found_a_file() ? 1 : 0;
  int has_one = 0;
  host_.Allreduce(&has_found_a_file, &has_one, 1, MPI_INT, MPI_MAX, private_communicator_);
  if (has_one != 0) writer_.discard();
}

clock::Model Tracer::synchronise_clock() const {
  try {
    ClockMessenger messenger(host_, private_communicator_, rank_, ranks_);
    return clock::synchronise(messenger, messenger.hosts());
  } catch (const CommunicationError& error) {
    say_once_on_node(error.what());
    return {};
  }
}

void Tracer::finish() {
  Header& header = writer_.header();
  clock::Model begin{.source = static_cast<clock::Source>(header.begin.kind),
                     .at = header.begin.at,
                     .offset = header.begin.offset,
                     .slope = header.begin.slope,
                     .residual_ns = header.begin.residual,
                     .bound_ns = static_cast<double>(header.begin.bound)};
  clock::Model end = synchronise_clock();
  clock::share_slope(begin, end);
  header.begin = to_stored_clock(begin);
  header.end = to_stored_clock(end);
  header.contention_at_end = contention_so_far();
  host_.Comm_free(&private_communicator_);
  writer_.finish();
  std::atomic_ref(header.flags).store(header.flags | ended_in_order, std::memory_order_release);
}

// -- names

// Returns the number of a name and records it if it is new. Returns 0 if there is no room for another name.
std::uint32_t Tracer::name(Named what, const std::string& text, std::uint32_t size, std::uint32_t most) {
  const auto key = std::pair(what, std::pair(text, size));
  if (const auto known = names_.find(key); known != names_.end()) return known->second;
  const std::uint32_t number = named_[what] + 1;
  if (number > most || !write_name(what, number, text, size)) return 0;
  named_[what] = names_[key] = number;
  return number;
}

bool Tracer::write_name(Named what, std::uint32_t number, const std::string& text, std::uint32_t size) {
  const NameRecord head{
      .kind = RecordKind::name,
      .what = what,
      .length = static_cast<std::uint16_t>(text.size()),
      .slots = static_cast<std::uint32_t>((sizeof(NameRecord) + text.size() + slot_bytes - 1) / slot_bytes),
      .number = number,
      .size = size};
  return writer_.write(std::as_bytes(std::span(&head, 1)), std::as_bytes(std::span(text)));
}

KnownType Tracer::learn_type(MPI_Datatype handle) {
  if (handle == null_type_) return {};
  int size = 0;
  char text[MPI_MAX_OBJECT_NAME + 1] = "";
  int length = 0;
  host_.Type_size(handle, &size);
  host_.Type_get_name(handle, text, &length);
  KnownType known;
  known.size = static_cast<std::uint32_t>(std::max(size, 0));  // MPI_UNDEFINED for a size above INT_MAX
  const std::string name_or_none = length > 0 ? std::string(text) : "user-defined";
  known.number = static_cast<std::uint16_t>(name(Named::type, name_or_none, known.size, most_types));
  types_.insert(abi::bits(handle), known);
  return known;
}

std::uint8_t Tracer::learn_operation(MPI_Op handle) {
  const auto known =
      std::ranges::find(predefined_operations_, handle, &std::pair<MPI_Op, const char*>::first);
  const char* text = known != predefined_operations_.end() ? known->second : "user-defined";
  const auto number = static_cast<std::uint8_t>(name(Named::operation, text, 0, max_small_number));
  operations_.insert(abi::bits(handle), number);
  return number;
}

std::uint16_t Tracer::named_type(const char* text, std::uint32_t size) {
  if (*text == '\0') return 0;
  const auto key = reinterpret_cast<Handle>(text);
  if (const std::uint16_t* known = named_types_.find(key)) return *known;
  const auto number = static_cast<std::uint16_t>(name(Named::type, text, size, most_types));
  named_types_.insert(key, number);
  return number;
}

std::uint8_t Tracer::named_operation(const char* text) {
  if (*text == '\0') return 0;
  const auto key = reinterpret_cast<Handle>(text);
  if (const std::uint8_t* known = named_operations_.find(key)) return *known;
  const auto number = static_cast<std::uint8_t>(name(Named::operation, text, 0, max_small_number));
  named_operations_.insert(key, number);
  return number;
}

// Texts of algorithms live as long as the process, so their addresses are keys.
std::uint8_t Tracer::learn_algorithm(const char* text) {
  const auto number = static_cast<std::uint8_t>(name(Named::algorithm, text, 0, max_small_number));
  algorithms_.insert(reinterpret_cast<Handle>(text), number);
  return number;
}

// -- communicators

// Processes of other jobs get rank -1, because MPI_UNDEFINED differs between hosts.
std::vector<int> Tracer::world_ranks(MPI_Group group) const {
  int size = 0;
  host_function<"PMPI_Group_size", decltype(PMPI_Group_size)>()(group, &size);
  std::vector<int> ranks(static_cast<std::size_t>(size));
  std::vector<int> world(ranks.size());
  for (std::size_t i = 0; i < ranks.size(); ++i) ranks[i] = static_cast<int>(i);
  MPI_Group all;
  host_.Comm_group(MPI_COMM_WORLD, &all);
  host_.Group_translate_ranks(group, size, ranks.data(), all, world.data());
  host_.Group_free(&all);
  std::ranges::replace(world, MPI_UNDEFINED, -1);
  return world;
}

// Computes an identity that is equal on all ranks, without a message. Creating communicators with the same
// ranks from the same parent is collective over these ranks, so all ranks count them alike.
void Tracer::add_communicator(MPI_Comm handle, MPI_Comm parent, bool has_group_of_parent) {
  auto made = std::make_shared<Communicator>();
  Communicator* from = is_null_communicator(parent) ? nullptr : find_communicator(parent);
  if (has_group_of_parent && from != nullptr) {
    *made = *from;
    made->is_defined = false;
    made->neighbours = -1;
    made->calls = 0;
  } else {
    made->rank = host_.rank_in(handle);
    made->ranks = made->peers = host_.size_of(handle);
    int is_inter = 0;
    host_.Comm_test_inter(handle, &is_inter);
    made->is_inter = is_inter != 0;
    MPI_Group group;
    host_.Comm_group(handle, &group);
    std::vector<int> ranks = world_ranks(group);
    made->group = hash_of(ranks);
    host_.Group_free(&group);
    if (made->is_inter) {
      host_function<"PMPI_Comm_remote_group", decltype(PMPI_Comm_remote_group)>()(handle, &group);
      const std::vector<int> others = world_ranks(group);
      made->peers = static_cast<int>(others.size());
      made->group += hash_of(others);  // a sum, because the two sides see the groups in opposite order
      host_.Group_free(&group);
      ranks.insert(ranks.end(), others.begin(), others.end());
    }
    made->is_of_several_jobs = std::ranges::find(ranks, -1) != ranks.end();
  }
  const OwnFloatingPoint own;  // a hash table computes when it grows
  const std::uint64_t family = mix_hash(from != nullptr ? from->identity : 0, made->group);
  made->identity = mix_hash(family, created_counts_[family]++);
  recent_communicators_.erase(abi::bits(handle));
  communicators_[abi::bits(handle)] = std::move(made);
}

void Tracer::remove(MPI_Comm handle) {
  recent_communicators_.erase(abi::bits(handle));
  communicators_.erase(abi::bits(handle));
}

// A communicator whose creation was not intercepted becomes known at its first call.
Communicator* Tracer::find_communicator(MPI_Comm handle) {
  if (is_null_communicator(handle)) return nullptr;
  auto known = communicators_.find(abi::bits(handle));
  if (known == communicators_.end()) {
    add_communicator(handle, null_communicator_, false);
    known = communicators_.find(abi::bits(handle));
  }
  recent_communicators_.insert(abi::bits(handle), known->second.get());
  return known->second.get();
}

std::shared_ptr<Communicator> Tracer::prepared(MPI_Comm handle) {
  Communicator* known = find_communicator(handle);
  if (known == nullptr) return nullptr;
  if (!known->is_defined) write_definition(*known, handle);
  return communicators_.find(abi::bits(handle))->second;
}

std::string Tracer::name_of(MPI_Comm handle) const {
  char name[MPI_MAX_OBJECT_NAME + 1] = "";
  int length = 0;
  host_function<"PMPI_Comm_get_name", decltype(PMPI_Comm_get_name)>()(handle, name, &length);
  return name;
}

bool Tracer::matches_filter(const Communicator& communicator, MPI_Comm handle) const {
  return communicators_filter_.empty() ||
         matches_communicator(communicators_filter_, communicator.ranks, ranks_, name_of(handle));
}

// Writes the communicator's record, and its name if it has one. A rank that records no calls writes only the
// list of ranks, if it is rank 0 of the communicator.
void Tracer::write_definition(Communicator& communicator, MPI_Comm handle) {
  if (writer_.is_full()) return;
  communicator.matches_filter = matches_filter(communicator, handle);
  if (!communicator.matches_filter) {
    communicator.is_defined = true;
    return;
  }
  if (!records_ && communicator.rank != 0) {
    communicator.is_defined = true;
    return;
  }
  MPI_Group group;
  host_.Comm_group(handle, &group);
  std::vector<int> ranks = world_ranks(group);
  host_.Group_free(&group);
  bool first = true;
  for (std::size_t i = 0; i < ranks.size(); ++i) first = first && ranks[i] == static_cast<int>(i);
  if (first || communicator.rank != 0) ranks.clear();
  const std::size_t bytes = communicator_ranks_offset + ranks.size() * sizeof(int);
  const CommunicatorRecord record{
      .kind = RecordKind::communicator,
      .flags = static_cast<std::uint8_t>(
          (communicator.is_inter ? inter : 0) | (first ? has_first_ranks_of_world : 0) |
          (ranks.empty() ? 0 : ranks_follow) | (communicator.is_of_several_jobs ? of_several_jobs : 0)),
      .zero = 0,
      .slots = static_cast<std::uint32_t>((bytes + slot_bytes - 1) / slot_bytes),
      .number = defined_,
      .ranks = static_cast<std::uint32_t>(communicator.ranks),
      .identity = communicator.identity,
      .rank = static_cast<std::uint32_t>(communicator.rank)};
  const auto head = std::as_bytes(std::span(&record, 1)).first(communicator_ranks_offset);
  if (!writer_.write(head, std::as_bytes(std::span(ranks)))) return;
  communicator.number = defined_++;
  communicator.is_defined = true;
  if (const std::string text = name_of(handle); !text.empty())
    static_cast<void>(write_name(Named::communicator, communicator.number, text, 0));
}

int Tracer::neighbours(MPI_Comm handle, Communicator& communicator) const {
  if (communicator.neighbours >= 0) return communicator.neighbours;
  int topology = MPI_UNDEFINED;
  host_function<"PMPI_Topo_test", decltype(PMPI_Topo_test)>()(handle, &topology);
  int count = 0;
  if (topology == MPI_CART) {
    host_function<"PMPI_Cartdim_get", decltype(PMPI_Cartdim_get)>()(handle, &count);
    count *= 2;
  } else if (topology == MPI_GRAPH) {
    host_function<"PMPI_Graph_neighbors_count", decltype(PMPI_Graph_neighbors_count)>()(
        handle, communicator.rank, &count);
  } else if (topology == MPI_DIST_GRAPH) {
    int sources = 0;
    int weighted = 0;
    host_function<"PMPI_Dist_graph_neighbors_count", decltype(PMPI_Dist_graph_neighbors_count)>()(
        handle, &sources, &count, &weighted);
  }
  communicator.neighbours = count;
  return count;
}

// -- life

void start_tracer_or_exit() {
  const InsideOffbeat guard;
  try {
    const Settings settings = Settings::from_environment();
    if (settings.trace.empty()) return;
    the_tracer.store(new Tracer(lower_layers(), settings),
                     std::memory_order_release);  // never destroyed
    lower_layers().set_observer(c_interface);
  } catch (const CommunicationError& error) {
    say_once_on_node(std::string("this run is not traced: ") + error.what());
  } catch (const UsageError& error) {
    exit_with(error);
  }
}

void stop_tracer() {
  Tracer* tracer = the_tracer.exchange(nullptr, std::memory_order_acq_rel);
  if (tracer == nullptr) return;
  const InsideOffbeat guard;
  tracer->finish();
}

}  // namespace offbeat::trace
