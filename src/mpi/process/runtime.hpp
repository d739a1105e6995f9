// SPDX-License-Identifier: BSD-3-Clause
// Runtime is the state of one process: the host MPI, the settings, the choice of algorithms, and an entry (a
// `Communicator`) for each communicator of the program.
//
// It starts at the first intercepted call, because a preload also reaches shells and Python processes that
// never call MPI.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <vector>

#include "base/handle_tables.hpp"
#include "base/log.hpp"
#include "base/settings.hpp"
#include "groups/window_budget.hpp"
#include "mpi/communicators/communicator.hpp"
#include "mpi/communicators/team.hpp"
#include "mpi/host/fault_tolerance.hpp"
#include "mpi/host/host.hpp"
#include "mpi/host/host_variables.hpp"
#include "mpi/host/inside_offbeat.hpp"
#include "mpi/host/profilers.hpp"
#include "mpi/operations/host_progress.hpp"
#include "mpi/process/build_identity.hpp"
#include "mpi/types/types.hpp"
#include "node/call_counters.hpp"
#include "selection/selection.hpp"

namespace offbeat {

// The communicators that this thread used last. An entry is valid if no communicator has died since it was
// made.
struct RecentCommunicator {
  std::uintptr_t handle;
  Communicator* communicator;
  std::uint64_t destroyed_communicators;
};
inline constinit thread_local std::array<RecentCommunicator, 8> recent_communicators
    [[gnu::tls_model("initial-exec")]]{};
[[nodiscard]] inline RecentCommunicator& recent_communicator(std::uintptr_t handle) {
  return recent_communicators[hash(handle, recent_communicators.size())];
}

// How the host is told to serve one call by a name.
struct NamedAlgorithmCall {
  MPI_Comm shadow = MPI_COMM_NULL;     // the communicator of the host's call; null: the program's own
  HostVariables* variables = nullptr;  // sets `algorithm` for this call; null: nothing to set
  const HostAlgorithm* algorithm = nullptr;
};

class Runtime {
 public:
  Runtime();

  // Returns true if the parts that need a running MPI exist, and makes them if they do not. Returns false, on
  // all ranks alike, if MPI is not running.
  [[nodiscard]] bool is_started() { return has_started() || start_with_mpi(); }
  // Returns true if these parts exist already. It does not make them, because making them lets the host
  // progress, and no non-blocking call may do that.
  [[nodiscard]] bool has_started() const { return is_started_.load(std::memory_order_acquire); }

  // Returns the entry of a communicator. It is made at the communicator's first collective call, which is of
  // `collective`. Returns null if offbeat can neither serve nor judge the call (a null handle, or MPI is not
  // running). The host must then get the call.
  [[nodiscard]] Communicator* communicator(MPI_Comm handle, Collective collective) {
    const std::uintptr_t key = abi::bits(handle);
    const RecentCommunicator& entry = recent_communicator(key);
    if (entry.handle == key &&
        entry.destroyed_communicators == destroyed_communicators_.load(std::memory_order_acquire)) [[likely]]
      return entry.communicator;
    return find_and_cache(handle, collective);
  }

  // Returns the entry without waiting for another rank. Returns null if there is no entry yet. A communicator
  // of one rank has nothing to agree on, so its entry is made here.
  [[nodiscard]] Communicator* find_without_waiting(MPI_Comm handle, Collective collective);

  // Returns the entry of a communicator if it is in this thread's cache of recently used ones, otherwise
  // null.
  [[nodiscard]] Communicator* find_in_cache(MPI_Comm handle) const;

  // Records that the host has rejected a collective call of this rank on a communicator, if offbeat knows it.
  void note_rejected_call(MPI_Comm handle) const noexcept;

  // Lets the host serve this communicator, and all communicators that are made from it. Call this for a
  // communicator that is made from groups. Such a communicator can be in use before MPI_Init and after
  // MPI_Finalize, which ranks do not call at the same time.
  void leave_to_host(MPI_Comm handle);
  [[nodiscard]] bool is_left_to_host(MPI_Comm handle) const;

  // Serves MPI_Comm_free and MPI_Comm_disconnect. `host_call` frees the communicator and calls the program's
  // attribute functions, which may call anything. Until it returns, the host serves the communicator.
  int free_communicator(MPI_Comm handle, HostFunction<int(MPI_Comm*)> host_call, MPI_Comm* argument);

  // Call this when an entry is destroyed, which may be after its communicator is gone.
  void forget(const Communicator& communicator);

  // Call this before MPI_Finalize. Only the first call counts.
  void begin_to_finalize();

  [[nodiscard]] Counts counts(Collective collective);
  // Counts a call that the host serves, whether or not its communicator has an entry.
  void count_native(Collective collective) {
    without_communicator_[index_of(collective)].fetch_add(1, std::memory_order_relaxed);
  }

  const Host host;  // first, so that OtherFamily is thrown before any setting is read
  const Settings settings;
  const std::uint64_t settings_hash = settings.agreement();
  const ProfilerFunctions profilers;
  const HostProgress progress{host, settings.progress_cpus};
  Selection selection{host.mpi, settings.window_bytes, settings.adapt};
  // The identity of the build. It is equal on all ranks that may share a board.
  const std::uint64_t build = build_identity(selection);
  WindowBudget windows{settings.memory_bytes};
  CounterFile& counters = CounterFile::of_process(settings.counters);
  Teams teams;

  // Valid after is_started() has returned true.
  [[nodiscard]] const Types& types() const { return *types_; }
  [[nodiscard]] const FaultTolerance& fault_tolerance() const { return *fault_tolerance_; }
  [[nodiscard]] const OwnCommunicator& own_communicator() const { return types_->own_communicator(); }
  // Returns what offbeat knows of the host's own algorithms. It is made at the first call.
  [[nodiscard]] HostVariables& host_variables();
  // Returns how the host serves a call by the native(NAME) in last_algorithm. If it cannot, nothing is to be
  // set, and last_algorithm is null from then on.
  [[nodiscard]] NamedAlgorithmCall by_name(MPI_Comm handle, Collective collective, bool is_nonblocking);
  // Prints one line for a choice of every length that names no algorithm of the host.
  void report_unknown_choice(Collective collective);
  [[nodiscard]] int highest_tag() const { return highest_tag_; }

  // Returns true if the program is between MPI_Init and MPI_Finalize.
  [[nodiscard]] bool is_mpi_running() const;

 private:
  void report();
  static int on_copy(MPI_Comm, int, void*, void*, void*, int* flag);
  static int on_delete(MPI_Comm, int, void* communicator, void*);
  // Lets the host call end() in MPI_Finalize, behind the program's callbacks there.
  void arrange_end();
  // Ends the use of the host.
  void end();

  // This is not inlined, so that finding a recently used communicator stays short.
  [[gnu::noinline]] Communicator* find_and_cache(MPI_Comm handle, Collective collective);
  Communicator* find_or_create(MPI_Comm handle, Collective collective);
  // Sets `found` to the entry, or to null if the host must serve the communicator. Returns false if there is
  // no entry yet and one may be made.
  [[nodiscard]] bool find(MPI_Comm handle, Communicator*& found);
  [[nodiscard]] bool start_with_mpi();
  // Makes an entry. Returns null if there is no memory.
  [[nodiscard]] Communicator* add(MPI_Comm handle);
  void remove(MPI_Comm handle);
  [[gnu::noinline]] static void destroy(Communicator* communicator);
  // Destroys those that were freed while a thread of offbeat used them.
  static void destroy_abandoned();

  std::atomic<bool> is_started_{false};
  std::atomic<bool> is_finalizing_{false};
  std::atomic<bool> has_ended_{false};
  bool host_calls_end_ = false;
  std::array<std::atomic<std::uint64_t>, collectives.size()> without_communicator_{};
  std::optional<const Types> types_;
  std::optional<const FaultTolerance> fault_tolerance_;
  std::atomic<HostVariables*> host_variables_{nullptr};  // never destroyed
  int keyval_ = MPI_KEYVAL_INVALID;                      // invalid: no memory, so no entry can be kept
  std::atomic<int> left_to_host_{
      MPI_KEYVAL_INVALID};  // key of an attribute that marks communicators for the host
  int highest_tag_ = 32767;
  // Grows when a communicator is gone. That makes all entries of the threads' caches stale.
  std::atomic<std::uint64_t> destroyed_communicators_{1};
  std::atomic<std::uint64_t> created_entries_{0};  // counts entries that were made
  std::mutex mutex_;                               // guards the members below, and the start
  std::vector<Communicator*> communicators_;
  std::array<Counts, collectives.size()> counts_of_destroyed_communicators_;
};

// Starts the runtime if it is not running. Throws UsageError for a bad setting, or if no MPI of this family
// is loaded.
[[nodiscard]] Runtime& start_runtime();
// Starts the runtime. Returns false if the MPI of the process is of another family. After any other error the
// process ends with one line and exit code 2.
[[nodiscard]] bool start_runtime_or_pass_on();

extern std::atomic<Runtime*> the_runtime;
[[nodiscard]] inline bool has_runtime() { return the_runtime.load(std::memory_order_acquire) != nullptr; }
// Returns the runtime of this process. Call this only after an entry point has started it.
[[nodiscard]] inline Runtime& runtime() { return *the_runtime.load(std::memory_order_acquire); }

// The expression that this thread's last collective ran, including collectives through the C interface. Null
// means native.
extern constinit thread_local const Expression* last_algorithm [[gnu::tls_model("initial-exec")]];
// The value of `last_algorithm` after Communicator::copy_alone. It is not an algorithm that can be chosen.
extern const Expression copy_on_single_rank;

}  // namespace offbeat
