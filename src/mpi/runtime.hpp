// SPDX-License-Identifier: BSD-3-Clause
// What one process has: the host MPI, the settings, the choice of algorithms, and a context for each
// communicator.
//
// It starts at the first intercepted call, because a preload also reaches shells and pythons that never call
// MPI.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <vector>

#include "base/log.hpp"
#include "base/settings.hpp"
#include "mpi/check.hpp"
#include "mpi/host.hpp"
#include "mpi/node_board.hpp"
#include "mpi/transport.hpp"
#include "mpi/types.hpp"
#include "selection/selection.hpp"

namespace offbeat {

// How calls were served. Written by one thread at a time, read by any: relaxed loads and stores, no locked
// instruction.
class Counter {
 public:
  void increment() { value_.store(value() + 1, std::memory_order_relaxed); }
  [[nodiscard]] std::uint64_t value() const { return value_.load(std::memory_order_relaxed); }

 private:
  std::atomic<std::uint64_t> value_{0};
};

// What offbeat keeps for one communicator of the program, as an attribute of it.
//
// Collective calls on one communicator never overlap (MPI 5.0, section 6.14), so nothing here is locked.
class Context {
 public:
  // Takes the memory that is needed until the first message; here, because it may fail on one rank alone.
  Context(const Host& host, MPI_Comm communicator, const Settings& settings, const Selection& selection);
  ~Context();
  Context(const Context&) = delete;
  Context& operator=(const Context&) = delete;

  // Before the first use; collective over `communicator`. `mine`: null on a rank that has no memory for a
  // context. False, on all ranks: one of them could not make one, and nobody is to keep it.
  [[nodiscard]] static bool start(Context* mine, const Host& host, MPI_Comm communicator);

  // Null: leave the call to the host.
  [[nodiscard]] const Expression* choose(std::size_t count, std::size_t width) {
    if (table_.generation != selection_->generation()) [[unlikely]]
      refresh();
    const auto index = static_cast<std::size_t>(size_class(count * width));
    if (unannounced_[index]) [[unlikely]]
      announce(index);
    const Expression* chosen = runnable_[index];
    if (width > BoardShape::smallest_chunk && chosen != nullptr &&
        chosen->algorithm->on_board != OnBoard::no) {
      return nullptr;
    }
    return chosen;
  }
  [[nodiscard]] bool serves() const { return transport_ != nullptr; }

  // OFFBEAT_CHECK: throws CommunicationError, on all ranks, if they do not make the same call.
  [[nodiscard]] bool checks() const { return settings_->check && transport_ != nullptr; }
  void check(const CallSignature& mine);

  // Throws CommunicationError after an earlier failure.
  void require_intact() const;
  void run(const Expression& expression, Allreduce args);
  // For types that the host lacks: the chosen algorithm, or `fallback` where that is native. False: cannot be
  // served.
  [[nodiscard]] bool run_without_host(const Expression& fallback, Allreduce args);

  // A collective that goes on while the program computes. At most one is open on a communicator: starting
  // another collective completes it first, on every rank alike.
  struct Open {
    Context* context;
    Reduction reduction;  // args point to it
    Task task{};
    bool is_complete = false;
  };
  [[nodiscard]] bool begin(const Expression& fallback, Open& open, Allreduce args);
  // True: complete.
  [[nodiscard]] bool advance(Open& open);

  Counter intercepted;
  Counter served;

 private:
  // After another choice. Collective when it needs the board for the first time.
  void refresh();
  // The table, or what can run, has changed.
  void apply();
  void leave_to_host(std::string_view why);
  // Collective. The nodes and, if all can, their boards.
  void find_board();
  [[nodiscard]] bool is_board_open() const;
  [[nodiscard]] bool is_board_wanted() const;
  [[nodiscard]] ChoiceTable choices(bool with_board) const;
  // Collective.
  [[nodiscard]] bool on_all_ranks(bool mine) const;
  void announce(std::size_t index);
  // An exception of `body` ends all use of this communicator, on all ranks that wait on its board.
  template <class Body>
  void or_break(Body&& body);
  void complete_open();
  // For the report of a stall.
  void enter_board(std::size_t bytes);

  const Host* host_;
  const Settings* settings_;
  const Selection* selection_;
  int rank_ = 0;
  int size_ = 1;
  MPI_Comm private_communicator_;
  std::uint64_t settings_hash_ = 0;
  std::unique_ptr<MpiTransport> transport_;  // null: every call goes to the host
  std::optional<NodeLists> node_lists_;
  std::optional<Nodes> nodes_;
  std::unique_ptr<NodeBoard> board_;
  bool board_tried_ = false;
  bool is_broken_ = false;
  Open* open_ = nullptr;
  std::uint64_t other_calls_ = 0;  // those that were not intercepted but come through the C interface
  std::string_view why_native_;
  ChoiceTable table_;
  std::array<const Expression*, size_class_count> runnable_{};  // null: native
  std::array<bool, size_class_count> unannounced_{};
};

class Runtime {
 public:
  Runtime();

  // The context of a communicator, created at its first collective call. Null if the communicator is not one
  // that offbeat can serve or judge (null, or MPI is not running): the host must see the call.
  [[nodiscard]] Context* context(MPI_Comm communicator);

  // Drop what is kept for a communicator that the program is about to free. Harmless for others.
  void forget(MPI_Comm communicator);

  // Before MPI_Finalize.
  void finalize();

  struct Counts {
    std::uint64_t intercepted = 0;
    std::uint64_t served = 0;
  };
  [[nodiscard]] Counts counts();

  Settings settings;
  Host host;
  Selection allreduce{"allreduce"};

  [[nodiscard]] const Types& types() const { return *types_; }

 private:
  static int on_copy(MPI_Comm, int, void*, void*, void*, int* flag);
  static int on_delete(MPI_Comm, int, void* context, void*);

  Context* find_or_create(MPI_Comm communicator);
  // Needs MPI to run. False: no memory.
  [[nodiscard]] bool start_with_mpi();
  // Null: no memory.
  [[nodiscard]] Context* add(MPI_Comm communicator);

  std::unique_ptr<Types> types_;
  int keyval_ = MPI_KEYVAL_INVALID;
  // Grows when a context dies: entries of the threads' caches are then stale.
  std::atomic<std::uint64_t> deaths_{1};
  std::mutex mutex_;  // of what follows
  std::vector<Context*> contexts_;
  Counts of_dead_contexts_;
};

// Throws UsageError: a bad setting, or no MPI of this family is loaded.
[[nodiscard]] Runtime& start_runtime();
// Ends the process with one line and exit code 2 instead.
[[nodiscard]] Runtime& start_runtime_or_exit();

extern std::atomic<Runtime*> the_runtime;
// The process's runtime; the first intercepted call starts it.
[[nodiscard]] inline Runtime& runtime() {
  Runtime* running = the_runtime.load(std::memory_order_acquire);
  return running != nullptr ? *running : start_runtime_or_exit();
}

// What this thread's last intercepted collective ran; null: native.
extern constinit thread_local const Expression* last_algorithm [[gnu::tls_model("initial-exec")]];

// True while this thread is inside offbeat: calls that arrive then are offbeat's or the host's own.
extern constinit thread_local bool inside_offbeat [[gnu::tls_model("initial-exec")]];
class InsideOffbeat {
 public:
  InsideOffbeat() { inside_offbeat = true; }
  ~InsideOffbeat() { inside_offbeat = false; }
  InsideOffbeat(const InsideOffbeat&) = delete;
  InsideOffbeat& operator=(const InsideOffbeat&) = delete;
};

}  // namespace offbeat
