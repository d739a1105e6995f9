// SPDX-License-Identifier: BSD-3-Clause
// The state of one process: the host MPI, the settings, the choice of algorithms, and an entry for each
// communicator.
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

#include "base/log.hpp"
#include "base/settings.hpp"
#include "mpi/communicators/communicator.hpp"
#include "mpi/communicators/team.hpp"
#include "mpi/communicators/window_budget.hpp"
#include "mpi/host/fault_tolerance.hpp"
#include "mpi/host/host.hpp"
#include "mpi/host/inside_offbeat.hpp"
#include "mpi/host/tools.hpp"
#include "mpi/operations/host_progress.hpp"
#include "mpi/process/build_identity.hpp"
#include "mpi/types/types.hpp"
#include "selection/selection.hpp"

namespace offbeat {

class Runtime {
 public:
  Runtime();

  // Whether the parts that need a running MPI exist. False, on all ranks alike, while MPI is not running.
  [[nodiscard]] bool is_started() { return has_started() || start_with_mpi(); }
  // Whether they exist already. This does not make them: making them lets the host progress, which no
  // non-blocking call may do.
  [[nodiscard]] bool has_started() const { return is_started_.load(std::memory_order_acquire); }

  // The entry of a communicator, made at its first collective call, which is of `collective`. Null if offbeat
  // can neither serve nor judge the call (a null handle, or MPI is not running): the host must see it.
  [[nodiscard]] Communicator* communicator(MPI_Comm handle, Collective collective);

  // The same without waiting for another rank. Null if there is no entry yet, unless the ranks need not agree
  // on one.
  [[nodiscard]] Communicator* existing(MPI_Comm handle, Collective collective);

  // The entry of a communicator that this thread has used lately; null: perhaps another one.
  [[nodiscard]] const Communicator* known(MPI_Comm handle) const;

  // Lets the host serve this communicator, and all that are made of it. Call when a communicator has been
  // made of groups. It can be in use before MPI_Init and after MPI_Finalize, which each rank calls at another
  // time.
  void leave_to_host(MPI_Comm handle);
  [[nodiscard]] bool is_left_to_host(MPI_Comm handle) const;

  // MPI_Comm_free and MPI_Comm_disconnect: `host_call` frees the communicator, calling the program's
  // attribute functions, which may call anything. Until it returns, the host serves the communicator.
  int free_communicator(MPI_Comm handle, HostFunction<int(MPI_Comm*)> host_call, MPI_Comm* argument);

  // An entry is being destroyed, which may be after its communicator is gone.
  void forget(const Communicator& communicator);

  // Call before MPI_Finalize; only the first call counts.
  void finalize();

  [[nodiscard]] Counts counts(Collective collective);
  // Counts a call that the host serves, whatever is kept for its communicator.
  void count_native(Collective collective) {
    without_communicator_[index_of(collective)].fetch_add(1, std::memory_order_relaxed);
  }

  const Host host;  // first: in a process whose MPI is of another family no setting matters
  const Settings settings;
  const std::uint64_t settings_hash = settings.agreement();
  const Tools tools;
  const HostProgress progress{host, settings.progress_cpus};
  Selection selection{host.calls_itself("Open MPI")       ? HostMpi::open_mpi
                      : host.calls_itself("Intel(R) MPI") ? HostMpi::intel
                      : host.calls_itself("MPICH")        ? HostMpi::mpich
                                                          : HostMpi::other,
                      settings.window_bytes};
  // The identity of the build, equal on all ranks that may use a board together.
  const std::uint64_t build = build_identity(selection);
  WindowBudget windows{settings.memory_bytes};
  Teams teams;

  // Valid once is_started().
  [[nodiscard]] const Types& types() const { return *types_; }
  [[nodiscard]] const FaultTolerance& fault_tolerance() const { return *fault_tolerance_; }
  // A communicator of this rank alone, for calls that concern no other rank; its errors return.
  [[nodiscard]] MPI_Comm own_communicator() const { return types_->own_communicator(); }
  [[nodiscard]] int highest_tag() const { return highest_tag_; }

  // Whether the program is between MPI_Init and MPI_Finalize.
  [[nodiscard]] bool is_mpi_running() const;

 private:
  void report();
  static int on_copy(MPI_Comm, int, void*, void*, void*, int* flag);
  static int on_delete(MPI_Comm, int, void* communicator, void*);

  // Out of line, so that finding a recently used communicator stays short.
  [[gnu::noinline]] Communicator* remember(MPI_Comm handle, Collective collective);
  Communicator* find_or_create(MPI_Comm handle, Collective collective);
  // False: there is none yet, and one may be made.
  [[nodiscard]] bool find(MPI_Comm handle, Communicator*& found);
  [[nodiscard]] bool start_with_mpi();
  // Null: no memory.
  [[nodiscard]] Communicator* add(MPI_Comm handle);
  void remove(MPI_Comm handle);
  [[gnu::noinline]] static void destroy(Communicator* communicator);

  std::atomic<bool> is_started_{false};
  std::atomic<bool> is_finalizing_{false};
  std::array<std::atomic<std::uint64_t>, collectives.size()> without_communicator_{};
  std::optional<const Types> types_;
  std::optional<const FaultTolerance> fault_tolerance_;
  int keyval_ = MPI_KEYVAL_INVALID;                    // invalid: no memory, nothing can be kept
  std::atomic<int> left_to_host_{MPI_KEYVAL_INVALID};  // the key of an attribute that only says this
  int highest_tag_ = 32767;
  // Grows when a communicator is gone, which makes the entries of the threads' caches stale.
  std::atomic<std::uint64_t> deaths_{1};
  std::atomic<std::uint64_t> births_{0};  // of entries
  std::mutex mutex_;                      // guards the members below, and starting
  std::vector<Communicator*> communicators_;
  std::array<Counts, collectives.size()> of_dead_communicators_;
};

// Throws UsageError: a bad setting, or no MPI of this family is loaded.
[[nodiscard]] Runtime& start_runtime();
// Starts the runtime. Returns false if the MPI of the process is of another family. After any other error the
// process ends with one line and exit code 2.
[[nodiscard]] bool start_runtime_or_pass_on();

extern std::atomic<Runtime*> the_runtime;
[[nodiscard]] inline bool has_runtime() { return the_runtime.load(std::memory_order_acquire) != nullptr; }
// The process's runtime. The entry point of each call has started it.
[[nodiscard]] inline Runtime& runtime() { return *the_runtime.load(std::memory_order_acquire); }

// The expression that this thread's last collective ran, including collectives through the C interface; null:
// native.
extern constinit thread_local const Expression* last_algorithm [[gnu::tls_model("initial-exec")]];
// The value of `last_algorithm` after Communicator::copy_alone, which is no algorithm that anybody could
// choose.
extern const Expression copied_alone;

}  // namespace offbeat
