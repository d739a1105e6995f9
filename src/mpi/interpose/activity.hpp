// SPDX-License-Identifier: BSD-3-Clause
// The non-blocking and persistent collectives of the program that offbeat serves, and their requests.
//
// The request of a non-blocking collective is a generalised request of the host, so every function of MPI
// takes it. A persistent collective has the host's own persistent request as its handle. The host starts it
// only where offbeat leaves the collective to the host. Otherwise the host knows it as inactive, and while it
// is active, a generalised request stands for it in the calls of the host.
//
// The host makes, completes and frees a request in several hundred instructions. So a collective whose end
// the program learns in MPI_Wait or MPI_Test of its request alone ends without the host, to which the request
// stays an incomplete one, and serves another collective. The host is told of the end before it is given the
// request in any other call.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <optional>

#include "base/handle_tables.hpp"
#include "mpi/interpose/serve.hpp"

namespace offbeat {

class Activity;

// A generalised request of the host, for one collective after another.
struct HostRequest {
  static void* operator new(std::size_t bytes) { return pool::allocate(bytes); }
  static void operator delete(void* memory, std::size_t bytes) { pool::release(memory, bytes); }

  MPI_Request handle{};
  Activity* serves = nullptr;  // null: none, it is spare
  HostRequest* next_spare = nullptr;
};

class Activity {
 public:
  // A persistent one keeps its communicator.
  Activity(Runtime& process, Form form) : process_(process), is_persistent_(form == Form::persistent) {}
  Activity(const Activity&) = delete;
  Activity& operator=(const Activity&) = delete;
  ~Activity();
  static void* operator new(std::size_t bytes) { return pool::allocate(bytes); }
  static void operator delete(void* memory, std::size_t bytes) { pool::release(memory, bytes); }

  // What a Service keeps here.
  [[nodiscard]] Sides& kept(Sides*) { return sides_; }
  [[nodiscard]] Lists& kept(Lists*) { return lists_; }
  [[nodiscard]] Staged& staged() { return staged_; }

  // The call, when it has been judged. Persistent: kept for later. Otherwise begun.
  Outcome take(Communicator& communicator, const Call& call, bool shares);

  // Begins the collective, in which this has no request. Served: it has one from now on. May throw what
  // Communicator::begin throws.
  Outcome begin();
  // Returns when the collective is over, or has failed.
  void wait() noexcept;
  // Finds out whether the collective is over, if it is in the host's own hands.
  void look() noexcept;
  // Call before the host is given the request: it is told of the end, now or when it comes.
  void share_with_host() noexcept;
  // Ends the collective without the host, if it is over and has not failed; this may be gone then. False: it
  // goes on, or the host has to end it. Only in the thread that completes the request.
  [[nodiscard]] bool end_without_host() noexcept;

  [[nodiscard]] bool is_persistent() const { return is_persistent_; }
  [[nodiscard]] bool is_active() const { return is_active_.load(std::memory_order_acquire); }
  // The generalised request, while it is active.
  [[nodiscard]] MPI_Request request() const { return request_->handle; }
  [[nodiscard]] MPI_Comm communicator() const { return handle_; }
  // What it ran when it began, or was started last; null: native.
  [[nodiscard]] const Expression* algorithm() const { return algorithm_; }
  void belongs_to(MPI_Comm handle) { handle_ = handle; }

  // The program frees a persistent request. True: this may be destroyed, because the collective is not
  // active.
  [[nodiscard]] bool abandon();

 private:
  friend class Activities;
  static void on_end(void* self) noexcept;
  template <class Ask>
  void ask_host_pipeline(Ask&& is_over) noexcept;
  static int on_query(void* request, MPI_Status* status);
  static int on_free(void* request);
  static int on_cancel(void*, int) { return MPI_ERR_REQUEST; }
  // The results are put where the program wants them, and whoever asks is told. Calls the host.
  void end() noexcept;
  void become_inactive() noexcept;  // this may be gone then
  [[nodiscard]] Communicator& runner() const { return apart_ != nullptr ? *apart_ : *communicator_; }

  Runtime& process_;
  const bool is_persistent_;
  bool is_abandoned_ = false;
  bool is_held_ = false;  // the communicator, by this
  bool shares_ = false;
  std::atomic<bool> is_active_{false};
  int failure_ = MPI_SUCCESS;       // code of the host MPI
  HostRequest* request_ = nullptr;  // while it is active
  // Bits of these. Whoever sets the second one tells the host.
  static constexpr int over = 1;
  static constexpr int shared_with_host = 2;
  std::atomic<int> state_{0};
  MPI_Comm handle_{};  // for the program's error handler
  Communicator* communicator_ = nullptr;
  const Expression* algorithm_ = nullptr;
  std::unique_ptr<Communicator> apart_;  // where a persistent one runs; null: on the communicator itself
  // The collective is in the hands of one of these, or was over at once.
  std::unique_ptr<Operation> operation_;
  std::optional<HostPipeline> host_pipeline_;
  Call call_{};
  Sides sides_;
  Lists lists_;
  Staged staged_;
  std::optional<pool::Block> copy_;  // of the input
};

// The activities of this process, by request.
class Activities {
 public:
  // Whether there may be any, at the cost of a load.
  [[nodiscard]] bool any() const { return size_.load(std::memory_order_relaxed) > 0; }
  // Null: the request is not offbeat's.
  [[nodiscard]] Activity* find(MPI_Request request);
  // A persistent one has two requests: this one for its life, another while it is active.
  void insert(MPI_Request request, Activity& persistent);
  void erase(MPI_Request request);
  // A request that the host takes for active, for this one. Null: the host has none left.
  [[nodiscard]] HostRequest* take_request(const Host& host, Activity& activity);
  // One of which the host does not know that it is over.
  void give_back(HostRequest& request);
  // The host frees it.
  void forget(const HostRequest& request);
  // Before MPI ends.
  void free_spare_requests(const Host& host) noexcept;
  // How many persistent ones are active; only those need a substitute in the host's calls.
  std::atomic<int> active_persistent{0};

 private:
  class Turn;
  // What a request stands for: either of these.
  struct Target {
    Activity* persistent;
    HostRequest* request;
  };
  void add(MPI_Request request, const Target& target);
  // Call within a Turn. One thread writes at a time.
  void change_size(int by) {
    size_.store(size_.load(std::memory_order_relaxed) + static_cast<std::size_t>(by),
                std::memory_order_relaxed);
  }

  std::atomic_flag is_taken_{};
  std::atomic<std::size_t> size_{0};
  HostRequest* spare_ = nullptr;
  HandleTable<Target>* table_ = nullptr;  // never freed: a program may call MPI while it exits
};

extern constinit Activities activities;

// What an activity of this thread's last completion call failed with, until it is told to the program.
struct RequestFailure {
  int code = MPI_SUCCESS;
  MPI_Comm communicator{};
};
extern constinit thread_local RequestFailure request_failure [[gnu::tls_model("initial-exec")]];

// That of a collective.
void set_status(const Host& host, MPI_Status* status);

// Takes a non-blocking call, or one that makes a persistent request.
struct ByActivity {
  static constexpr bool may_wait = false;
  Activity& activity;

  [[nodiscard]] Communicator* find(Runtime& process, MPI_Comm handle, Collective collective) const;
  Staged& keep(std::optional<Staged>&) const { return activity.staged(); }
  template <class Kept>
  Outcome operator()(Communicator& communicator, const Call& call, bool shares, Kept&) const {
    return activity.take(communicator, call, shares);
  }
};

// Begins a non-blocking collective, or prepares a persistent one. Null: the outcome says what is to be done.
template <Collective collective, Form form, class Arguments>
[[nodiscard]] std::unique_ptr<Activity> make_activity(Runtime& process, const Arguments& call,
                                                      Outcome& outcome) noexcept {
  using Serving = Service<collective, Arguments, ByActivity>;
  const InsideOffbeat guard;
  last_algorithm = nullptr;
  outcome = {};
  try {
    // Most calls that go to the host are told here, at little cost.
    const bool may_be_served =
        form == Form::persistent
            ? process.is_started()
            : process.has_started() && process.existing(call.communicator, collective) != nullptr;
    if (may_be_served) {
      operations_under_way.clear();
      auto activity = std::make_unique<Activity>(process, form);
      activity->belongs_to(call.communicator);
      ByActivity carrier{*activity};
      auto& kept = activity->kept(static_cast<typename Serving::Kept*>(nullptr));
      outcome = Serving(process, call, carrier, kept).run();
      if (outcome.kind == Outcome::Kind::served) return activity;
      if (outcome.kind == Outcome::Kind::rejected) {
        // The collective goes on without a request of the program's.
        if (!activity->abandon()) static_cast<void>(activity.release());
        outcome = {.is_counted = true};
      }
    }
    if (!outcome.is_counted && form == Form::nonblocking) process.count_native(collective);
  } catch (...) {
    outcome = {.kind = Outcome::Kind::failed, .code = code_of_exception()};
  }
  return nullptr;
}

// `made` has just been made of `parent`, by all its ranks. If the program makes non-blocking calls on the
// parent, it will on this one, too, and they cannot wait until the ranks agree.
void agree_early(MPI_Comm parent, MPI_Comm made) noexcept;

}  // namespace offbeat
