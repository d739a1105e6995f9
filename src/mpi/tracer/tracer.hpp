// SPDX-License-Identifier: BSD-3-Clause
// Tracer is the state of one traced process: its file, and its communicators, types, operations and requests.
#pragma once

#include <atomic>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "base/handle_tables.hpp"
#include "base/settings.hpp"
#include "mpi/host/inside_offbeat.hpp"
#include "mpi/host/requests.hpp"
#include "mpi/tracer/lower_layers.hpp"
#include "trace/sampling.hpp"
#include "trace/writer.hpp"

namespace offbeat::trace {

using clock::Nanoseconds;

// The size of a window of the trace file. With larger windows a record costs no less, and taking the next
// window stops the program for longer.
inline constexpr std::size_t window_bytes = std::size_t{256} << 10;

struct Communicator {
  // A hash of its ranks in MPI_COMM_WORLD. For an inter-communicator it covers both groups.
  std::uint64_t group = 0;
  std::uint64_t identity = 0;  // equal on all ranks of the communicator
  int rank = 0;
  int ranks = 1;
  int peers = 1;  // ranks that this rank sends to in an alltoall; the remote group in an inter-communicator
  bool is_inter = false;
  bool is_of_several_jobs = false;  // some of its processes are outside this MPI_COMM_WORLD
  bool is_defined = false;          // true if its record is in the file, or is not wanted there
  bool matches_filter = true;       // false: the filter leaves its calls out
  std::uint32_t number = 0;
  int neighbours = -1;  // ranks that this rank sends to in a neighbourhood collective; -1: not known yet
  std::uint64_t calls = 0;
};

// What the arguments of a call contribute to its record.
struct ArgumentFacts {
  std::int64_t count = 0;
  std::int64_t bytes = 0;
  std::int32_t root = -1;
  std::uint16_t type = 0;
  std::uint8_t operation = 0;
  bool is_in_place = false;
};

struct KnownType {
  std::uint16_t number = 0;
  std::uint32_t size = 0;
};

// A persistent collective that the program may start.
struct PersistentCollective {
  Collective collective;
  // Shared, because the program may free the handle before the request.
  std::shared_ptr<Communicator> communicator;
  ArgumentFacts facts;
};

// A call whose record is not complete yet.
struct OpenCall {
  static constexpr std::uint64_t none = ~std::uint64_t{0};
  std::uint64_t slot = none;
  [[nodiscard]] bool is_recorded() const { return slot != none; }
};

struct TracedRequest {
  OpenCall open;                                   // for a persistent request: the call since MPI_Start
  std::shared_ptr<PersistentCollective> prepared;  // null: the request is not persistent
  [[nodiscard]] bool is_persistent() const { return prepared != nullptr; }
};

class Tracer {
 public:
  // Opens the trace at the end of MPI_Init. All ranks of MPI_COMM_WORLD must call this.
  Tracer(const LowerLayers& below, const Settings& settings);
  // Completes the trace before MPI_Finalize. All ranks must call this.
  void finish();
  // Returns the tracer if the current call comes from the program, otherwise null.
  [[nodiscard]] static Tracer* tracer_if_called_by_program();

  // Locks the tracer under MPI_THREAD_MULTIPLE. Hold the lock while you call any function below.
  [[nodiscard]] std::unique_lock<std::mutex> lock() {
    return is_threaded_ ? std::unique_lock(mutex_) : std::unique_lock<std::mutex>();
  }

  // Counts a call on the communicator `handle`, and returns that communicator, or null if the handle is null.
  [[nodiscard]] Communicator* count_call_on(MPI_Comm handle) {
    Communicator* const* recent = recent_communicators_.find(abi::bits(handle));
    Communicator* known = recent != nullptr ? *recent : find_communicator(handle);
    if (known == nullptr) [[unlikely]]
      return nullptr;
    if (!known->is_defined) [[unlikely]]
      write_definition(*known, handle);
    count_call(*known);
    return known;
  }
  void count_call(Communicator& communicator) {
    ++communicator.calls;
    writer_.header().calls += 1;
  }
  // Returns the communicator of a persistent collective. The call is counted when it is started.
  [[nodiscard]] std::shared_ptr<Communicator> prepared(MPI_Comm handle);
  // Returns true if the last counted call on `communicator`, one of `collective`, is to be recorded.
  [[nodiscard]] bool is_to_be_recorded(Collective collective, const Communicator& communicator) const {
    return collectives_recorded_now_.contain(collective) && communicator.matches_filter &&
           is_sampled(communicator.calls - 1, record_every_);
  }
  // Stops recording calls, or goes on with it. Calls are still counted, so that their numbers stay equal on
  // all ranks.
  void pause(bool paused) {
    collectives_recorded_now_ = paused ? Collectives() : recorded_collectives_;
    if (paused) writer_.header().flags |= is_partial;
  }
  // Begins the record of a call. It is inlined so that the facts stay in registers; otherwise it takes 3 ns
  // longer.
  [[nodiscard, gnu::always_inline]] OpenCall begin(Collective collective, std::uint8_t flags,
                                                   const Communicator& communicator,
                                                   const ArgumentFacts& facts, Nanoseconds arrival) {
    CallRecord* record = communicator.is_defined ? writer_.next() : nullptr;
    if (record == nullptr) [[unlikely]] {
      writer_.header().lost += 1;
      return {};
    }
    const int all_flags = flags | incomplete | (facts.is_in_place ? in_place : 0);
    *record = {.kind = RecordKind::call,
               .flags = static_cast<std::uint8_t>(all_flags),
               .collective = collective,
               .zero = 0,
               .communicator = communicator.number,
               .arrival = arrival,
               .exit = 0,
               .completion = 0,
               .number = communicator.calls - 1,
               .bytes = facts.bytes,
               .count = facts.count,
               .root = facts.root,
               .operation = facts.operation,
               .algorithm = 0,
               .type = facts.type};
    return {writer_.publish()};
  }
  // Records that a call has returned. `is_complete` is true if no completion follows. It is inlined for the
  // same reason as begin().
  [[gnu::always_inline]] void record_exit(OpenCall open, Nanoseconds exit, bool is_complete,
                                          const char* algorithm = nullptr, const Bits* bits = nullptr) {
    if (!open.is_recorded()) return;
    const std::uint8_t number = algorithm != nullptr ? number_of(algorithm) : 0;
    writer_.update_record(open.slot, [&](CallRecord& record) {
      record.exit = exit;
      record.algorithm = number;
      if (bits != nullptr) {
        record.bits = *bits;
        record.flags |= has_bits;
      }
      if (is_complete) end(record, exit);
    });
  }
  void complete(OpenCall open, Nanoseconds completion) {
    if (!open.is_recorded()) return;
    writer_.update_record(open.slot, [&](CallRecord& record) { end(record, completion); });
  }

  [[nodiscard]] KnownType type(MPI_Datatype handle) {
    const KnownType* known = types_.find(abi::bits(handle));
    return known != nullptr ? *known : learn_type(handle);
  }
  [[nodiscard]] std::uint8_t operation(MPI_Op handle) {
    const std::uint8_t* known = operations_.find(abi::bits(handle));
    return known != nullptr ? *known : learn_operation(handle);
  }
  // These return the numbers of a type and of an operation of a call through the C interface. The names must
  // live as long as the process. An empty name has number 0.
  [[nodiscard]] std::uint16_t named_type(const char* name, std::uint32_t size);
  [[nodiscard]] std::uint8_t named_operation(const char* name);
  void forget_type(MPI_Datatype handle) { types_.erase(abi::bits(handle)); }
  void forget_operation(MPI_Op handle) { operations_.erase(abi::bits(handle)); }
  [[nodiscard]] int neighbours(MPI_Comm handle, Communicator& communicator) const;

  // Adds a new communicator. Its identity comes from `parent`, its ranks, and how many with these ranks were
  // created from `parent` before; all ranks create them in the same order. `parent` is MPI_COMM_NULL if it is
  // unknown or differs between ranks. Set `has_group_of_parent` for a duplicate: its handle may not be usable
  // yet (MPI_Comm_idup), so its ranks are copied from the parent.
  void add_communicator(MPI_Comm handle, MPI_Comm parent, bool has_group_of_parent);
  void remove(MPI_Comm handle);

  // The members that RequestWrappers needs.
  Requests<TracedRequest> requests;
  [[nodiscard]] static Nanoseconds now() { return clock::now(); }
  [[nodiscard]] bool begins_persistent_call(TracedRequest& request, Nanoseconds arrival) {
    const PersistentCollective& prepared = *request.prepared;
    count_call(*prepared.communicator);
    if (!is_to_be_recorded(prepared.collective, *prepared.communicator)) return false;
    request.open =
        begin(prepared.collective, CallFlag::persistent, *prepared.communicator, prepared.facts, arrival);
    return request.open.is_recorded();
  }
  void record_start(const TracedRequest& traced, MPI_Request request, Nanoseconds exit, int code) {
    if (!traced.open.is_recorded()) return;
    const bool may_be_served = facts_of(traced.prepared->collective).is_served;
    const char* algorithm = may_be_served ? lower_layers().started_algorithm(request) : nullptr;
    record_exit(traced.open, exit, code != MPI_SUCCESS, algorithm);
  }
  void record_completion(TracedRequest& request, Nanoseconds completion) {
    complete(std::exchange(request.open, {}), completion);
  }

  [[nodiscard]] bool is_null_communicator(MPI_Comm communicator) const {
    return communicator == null_communicator_;
  }
  [[nodiscard]] bool is_bitwise_and(MPI_Op operation) const { return operation == bitwise_and_; }

 private:
  void keep_out_of_an_earlier_trace();
  [[nodiscard]] clock::Model synchronise_clock() const;
  [[nodiscard]] Communicator* find_communicator(MPI_Comm handle);
  [[nodiscard]] std::vector<int> world_ranks(MPI_Group group) const;
  void write_definition(Communicator& communicator, MPI_Comm handle);
  [[nodiscard]] bool matches_filter(const Communicator& communicator, MPI_Comm handle) const;
  // Returns the name that MPI or the program gave a communicator; empty if there is none.
  [[nodiscard]] std::string name_of(MPI_Comm handle) const;
  [[nodiscard]] KnownType learn_type(MPI_Datatype handle);
  [[nodiscard]] std::uint8_t learn_operation(MPI_Op handle);
  [[nodiscard]] std::uint8_t number_of(const char* algorithm) {
    const std::uint8_t* known = algorithms_.find(reinterpret_cast<Handle>(algorithm));
    return known != nullptr ? *known : learn_algorithm(algorithm);
  }
  [[nodiscard]] std::uint8_t learn_algorithm(const char* text);
  static void end(CallRecord& record, Nanoseconds completion) {
    record.completion = completion;
    const auto flags = static_cast<std::uint8_t>(record.flags & ~incomplete);
    std::atomic_ref(record.flags).store(flags, std::memory_order_release);
  }
  [[nodiscard]] std::uint32_t name(Named what, const std::string& text, std::uint32_t size,
                                   std::uint32_t most);
  [[nodiscard]] bool write_name(Named what, std::uint32_t number, const std::string& text,
                                std::uint32_t size);

  const Host& host_;
  const std::uint64_t record_every_;
  const int rank_;
  const int ranks_;
  const bool records_;
  const Collectives recorded_collectives_;  // empty on a rank that records no calls
  const std::string communicators_filter_;
  const bool is_threaded_;
  Collectives collectives_recorded_now_;  // empty while the trace is paused
  MPI_Comm private_communicator_;         // for the tracer's own messages
  const std::uint64_t run_;
  Writer writer_;
  std::mutex mutex_;
  // Copies, because Open MPI's constants are slow to look up; see abi.hpp.
  const MPI_Comm null_communicator_ = MPI_COMM_NULL;
  const MPI_Datatype null_type_ = MPI_DATATYPE_NULL;
  const MPI_Op bitwise_and_ = MPI_BAND;

  DirectCache<Communicator*, 16> recent_communicators_;
  DirectCache<KnownType, 64> types_;
  DirectCache<std::uint8_t, 32> operations_;
  DirectCache<std::uint8_t, 32> algorithms_;
  DirectCache<std::uint16_t, 32> named_types_;
  DirectCache<std::uint8_t, 16> named_operations_;

  std::unordered_map<Handle, std::shared_ptr<Communicator>> communicators_;
  // The number of communicators made, by parent and group.
  std::unordered_map<std::uint64_t, std::uint64_t> created_counts_;
  std::uint32_t defined_ = 0;
  std::map<std::pair<Named, std::pair<std::string, std::uint32_t>>, std::uint32_t> names_;
  std::map<Named, std::uint32_t> named_;
  std::vector<std::pair<MPI_Op, const char*>> predefined_operations_;
};

// Null before MPI_Init, after MPI_Finalize, and if OFFBEAT_TRACE is not set.
extern std::atomic<Tracer*> the_tracer;
void start_tracer_or_exit();
void stop_tracer();

inline Tracer* Tracer::tracer_if_called_by_program() {
  return inside_offbeat ? nullptr : the_tracer.load(std::memory_order_acquire);
}

}  // namespace offbeat::trace
