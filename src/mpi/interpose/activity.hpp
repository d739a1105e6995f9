// SPDX-License-Identifier: BSD-3-Clause
// An Activity is a non-blocking or persistent collective of the program that offbeat serves, with its
// request.
//
// The request of a non-blocking collective is a generalised request of the host, so every function of MPI
// takes it. A persistent collective has the host's own persistent request as its handle. The host starts that
// request only if offbeat leaves the collective to the host. Otherwise the host knows it as inactive, and
// while it is active, a generalised request replaces it in the calls of the host.
//
// The host needs several hundred instructions to make, complete and free a request. Usually the program
// learns of the end of a collective from one of offbeat's functions. The collective then ends without the
// host: the host still regards the request as incomplete, and the request serves another collective. The host
// is told of an end only if the program may be waiting in a function of the host that bypasses offbeat's, for
// example one that it found by dlsym.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <optional>

#include "mpi/interpose/activities.hpp"
#include "mpi/interpose/request_failure.hpp"
#include "mpi/interpose/serve.hpp"

namespace offbeat {

class Activity {
 public:
  // A persistent activity keeps its communicator. Throws std::bad_alloc.
  Activity(Runtime& process, Form form);
  Activity(const Activity&) = delete;
  Activity& operator=(const Activity&) = delete;
  ~Activity();
  static void* operator new(std::size_t bytes) { return pool::allocate(bytes); }
  static void operator delete(void* memory, std::size_t bytes) { pool::release(memory, bytes); }

  // Storage that a ServedCall needs until the collective completes: kept() returns its sides or lists, and
  // staged() its staged call.
  [[nodiscard]] Sides& kept(Sides*) { return sides_; }
  [[nodiscard]] Lists& kept(Lists*) { return lists_; }
  [[nodiscard]] std::optional<Staged>& staged() { return staged_; }

  // Takes a judged call. A persistent call is kept for later; any other begins at once.
  Outcome begin_or_keep(Communicator& communicator, const Call& call, bool shares);

  // Begins the collective. Call it only while the activity has no request. If the outcome is `served`, it has
  // one from now on. May throw what Communicator::begin throws.
  Outcome begin();
  // Returns when the collective is over, or has failed.
  void wait() noexcept;
  // Asks the host whether the collective is over, if the host's own collectives run it.
  void poll_host_pipeline() noexcept;
  // Returns true if the collective is over. Call finish() next.
  [[nodiscard]] bool is_over() const { return (state_.load(std::memory_order_acquire) & over) != 0; }
  // Tells the host of the end, now or when it comes.
  void share_with_host() noexcept;
  // Ends the request of a collective that is over, as MPI_Wait does: a persistent one becomes inactive.
  // Returns the collective's error. `this` may be gone then. Call it only in the thread that completes the
  // request for the program.
  [[nodiscard]] RequestFailure finish() noexcept;
  // Returns the error of a collective that is over.
  [[nodiscard]] RequestFailure failure() const { return {failure_, handle_}; }

  [[nodiscard]] bool is_persistent() const { return is_persistent_; }
  [[nodiscard]] bool is_active() const { return is_active_.load(std::memory_order_acquire); }
  // Returns true if the host ran a persistent collective when it was last started. Then only the host knows
  // whether it is active.
  [[nodiscard]] bool was_started_by_host() const { return was_started_by_host_; }
  void started_by_host(bool was) { was_started_by_host_ = was; }
  // Returns the generalised request. Only valid while the collective is active.
  [[nodiscard]] MPI_Request request() const { return request_->handle; }
  [[nodiscard]] MPI_Comm communicator() const { return handle_; }
  // Ends the measurement of a call for which the program has waited this number of nanoseconds.
  void end_measured(std::uint64_t waited) noexcept;
  [[nodiscard]] bool is_measured() const { return static_cast<bool>(measured_); }
  // Returns what the collective ran when it began or was last started; null for native.
  [[nodiscard]] const Expression* algorithm() const { return algorithm_; }
  void set_communicator_handle(MPI_Comm handle) { handle_ = handle; }
  // Sets `request`, a request of the host, as the one by which the program knows a persistent collective.
  void register_persistent(MPI_Request request) noexcept;

  // Call if the program frees a persistent request, or gets none. Returns true if `this` may be destroyed,
  // because the collective is not active. Otherwise the collective goes on, and `this` may be gone.
  [[nodiscard]] bool abandon();

 private:
  friend class Activities;
  static void on_end(void* self) noexcept;
  template <class Ask>
  void ask_host_pipeline(Ask&& is_over) noexcept;
  static int on_query(void* request, MPI_Status* status);
  static int on_free(void* request);
  static int on_cancel(void*, int) { return MPI_ERR_REQUEST; }
  [[nodiscard]] bool make(HostRequest& request) noexcept;
  static int on_poll(void* request, MPI_Status* status);
  static int on_wait(int count, void** requests, double timeout, MPI_Status* status);
  // Get the data from the program. begin_pack() only begins copies from a device, and the operation waits for
  // them.
  void pack();
  void begin_pack();
  [[nodiscard]] const StandInCopies* stand_ins() const {
    return staged_ ? staged_->stand_ins() : sides_.stand_ins();
  }
  // Puts the results where the program wants them, and tells all that ask for the end. Calls the host.
  void end() noexcept;
  // Frees the request of a collective that is over and that nobody will wait for, because the program has
  // freed its request. `this` may be gone then.
  void free_unclaimed_request(bool host_was_told) noexcept;
  void become_inactive() noexcept;  // this may be gone then
  [[nodiscard]] Communicator& running_communicator() const {
    return persistent_communicator_ != nullptr ? *persistent_communicator_ : *communicator_;
  }

  Runtime& process_;
  const bool is_persistent_;
  bool is_abandoned_ = false;
  bool holds_reference_ = false;  // true if this holds the communicator (Communicator::hold)
  bool shares_ = false;
  std::atomic<bool> is_active_{false};
  int failure_ = MPI_SUCCESS;       // an error code of the host MPI
  HostRequest* request_ = nullptr;  // set while the collective is active
  HostRequest host_request_;        // set for a persistent collective
  bool host_saw_it_over_ = false;   // true if the host asked and the collective was over
  bool was_started_by_host_ = false;
  // The bits of state_. The thread that sets the second of `over` and `shared_with_host` tells the host. The
  // thread that sets the second of `over` and `unclaimed` drops the activity.
  static constexpr int over = 1;
  static constexpr int shared_with_host = 2;
  static constexpr int unclaimed = 4;  // the program has no request left
  std::atomic<int> state_{0};
  MPI_Comm handle_{};  // for the program's error handler
  Communicator* communicator_ = nullptr;
  const Expression* algorithm_ = nullptr;
  // Where a persistent collective runs, if not on the communicator itself.
  std::unique_ptr<Communicator> persistent_communicator_;
  // One of these runs the collective, or it was over at once.
  std::unique_ptr<Operation> operation_;
  std::optional<HostPipeline> host_pipeline_;
  Call call_{};
  MeasuredCall measured_;
  Sides sides_;
  Lists lists_;
  std::optional<Staged> staged_;
  std::optional<pool::Block> copy_;  // of the input
};

// Sets the status of a complete collective.
void set_status(const Host& host, MPI_Status* status);

// The carrier (JudgedCall) of a non-blocking call, or of one that makes a persistent request.
struct ActivityCarrier {
  static constexpr bool may_wait = false;
  Activity& activity;
  Communicator* known;  // the call's; null if a persistent call still has to make it

  [[nodiscard]] const Communicator* find_known(const Runtime&, MPI_Comm) const { return known; }
  [[nodiscard]] Communicator* find(Runtime& process, MPI_Comm handle, Collective collective) const;
  Staged& keep(std::optional<Staged>&) const { return activity.staged().emplace(); }
  // A persistent call may not have stand-ins: it keeps its vectors for all starts, and each start chooses an
  // algorithm.
  [[nodiscard]] bool may_have_stand_ins(Communicator& communicator, Collective collective, std::size_t bytes,
                                        std::size_t width) const {
    if (activity.is_persistent()) return false;
    return Communicator::may_have_stand_ins(communicator.choose_to_begin(collective, bytes, width),
                                            collective);
  }
  template <Collective, class Kept>
  Outcome carry_out(Communicator& communicator, const Call& call, std::size_t, bool shares, Kept&) const {
    return activity.begin_or_keep(communicator, call, shares);
  }
};

// Begins a non-blocking collective, or prepares a persistent one. If it returns null, the outcome says what
// to do.
template <Collective collective, Form form, class Arguments>
[[nodiscard]] std::unique_ptr<Activity> make_activity(Runtime& process, const Arguments& call,
                                                      Outcome& outcome) noexcept {
  using Serving = ServedCall<collective, Arguments, ActivityCarrier>;
  const InsideOffbeat guard;
  last_algorithm = nullptr;
  outcome = {};
  try {
    // Most calls that go to the host are recognised here, at little cost.
    const bool is_started = form == Form::persistent ? process.is_started() : process.has_started();
    Communicator* const known =
        is_started ? process.find_without_waiting(call.communicator, collective) : nullptr;
    if (form == Form::nonblocking && known != nullptr && known->copies_alone(collective)) {
      outcome.kind = Outcome::Kind::alone;
      return nullptr;
    }
    if (form == Form::persistent ? is_started : known != nullptr) {
      operations_under_way.clear();
      const auto make = [&] { return std::make_unique<Activity>(process, form); };
      // Without memory this rank counts one call less than the others, which may wait for it.
      const bool others_count = known != nullptr && known->serves() && known->size() > 1;
      auto activity = others_count ? known->break_on_error(collective, std::size_t{0}, make) : make();
      activity->set_communicator_handle(call.communicator);
      ActivityCarrier carrier{*activity, known};
      auto& kept = activity->kept(static_cast<typename Serving::KeptBuffers*>(nullptr));
      outcome = Serving(process, call, carrier, kept).run();
      if (outcome.kind == Outcome::Kind::served) return activity;
    }
    if (!outcome.is_counted && form == Form::nonblocking) process.count_native(collective);
  } catch (...) {
    outcome = {.kind = Outcome::Kind::failed, .code = code_of_exception()};
  }
  return nullptr;
}

// Lets the ranks agree on `made`, which all ranks of `parent` have just made from it. If the program makes
// non-blocking calls on the parent, it will make them on this one, too, and they cannot wait until the ranks
// agree.
void agree_early(MPI_Comm parent, MPI_Comm made) noexcept;

}  // namespace offbeat
