// SPDX-License-Identifier: BSD-3-Clause
// Communicator is the state that offbeat keeps for one communicator of the program, as an attribute of it.
//
// Collective calls on one communicator never overlap (MPI 5.0, section 6.14), so nothing here is locked.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string_view>

#include "collectives/algorithm.hpp"
#include "mpi/communicators/adaptation.hpp"
#include "mpi/communicators/announcements.hpp"
#include "mpi/communicators/check.hpp"
#include "mpi/communicators/communicator_plans.hpp"
#include "mpi/communicators/node_board.hpp"
#include "mpi/communicators/team.hpp"
#include "mpi/communicators/transport.hpp"
#include "mpi/host/private_communicator.hpp"
#include "mpi/operations/host_pipeline.hpp"
#include "mpi/operations/operation.hpp"
#include "selection/selection.hpp"
#include "transport/lateness.hpp"

namespace offbeat {

class Runtime;
class SetUp;

// Counts calls. One thread writes at a time and any thread may read. Relaxed loads and stores suffice,
// without a locked instruction.
class Counter {
 public:
  void increment() { value_.store(value() + 1, std::memory_order_relaxed); }
  [[nodiscard]] std::uint64_t value() const { return value_.load(std::memory_order_relaxed); }

 private:
  std::atomic<std::uint64_t> value_{0};
};

struct Counts {
  std::uint64_t intercepted = 0;
  std::uint64_t served = 0;

  Counts& operator+=(const Counts& other) {
    intercepted += other.intercepted;
    served += other.served;
    return *this;
  }
};

class Communicator {
 public:
  // Allocates all memory that is needed before the first message, because that may fail on one rank alone.
  // The second constructor makes a Communicator that works apart, for persistent requests. `origin` must
  // outlive it.
  Communicator(Runtime& process, MPI_Comm handle);
  Communicator(const Communicator& origin, const BoardSize& board_size);
  ~Communicator();
  Communicator(const Communicator&) = delete;
  Communicator& operator=(const Communicator&) = delete;

  // Sets up the Communicator. Call this before the first use, for `collective`; it is collective over
  // `handle`. `mine` is null on a rank that has no memory for it. Returns false on all ranks if any rank
  // failed; every rank must then discard its own.
  [[nodiscard]] static bool start(Communicator* mine, Runtime& process, MPI_Comm handle,
                                  Collective collective);

  // Returns true if the ranks have nothing to agree on. This holds for a communicator of one rank.
  [[nodiscard]] static bool is_made_alone(const Host& host, MPI_Comm handle) {
    return host.size_of(handle) == 1;
  }

  // Returns what the plan says for a call of this length (Call::length) with elements of `width` bytes.
  [[nodiscard]] Choice choose(Collective collective, std::size_t bytes, std::size_t width) {
    if (!plans_.is_up_to_date(collective)) [[unlikely]]
      refresh(collective);
    const PlanInUse& mine = plans_.of(collective);
    if (mine.is_short(bytes)) [[likely]]
      return {mine.short_row()};
    return choose_from_rows(collective, bytes, width);
  }
  // Call at the end of a blocking call that took an alternative of a trial, whichever MPI served it. If all
  // ranks have to combine their times, this is collective.
  void end_measured(RowTrial& row);
  // Prints what `choose` finds for such calls, if OFFBEAT_VERBOSE is set. It has no influence on decisions.
  void announce(Collective collective, std::size_t bytes) {
    if (is_verbose_) [[unlikely]]
      announcements_.say_choice(collective, plans_.of(collective).plan(), bytes, size_, why_native_);
  }
  [[nodiscard]] bool serves() const { return transport_ != nullptr; }
  [[nodiscard]] int rank() const { return rank_; }
  [[nodiscard]] int size() const { return size_; }
  // Returns true if the program has revoked the communicator (ULFM). The host reports that to the program.
  [[nodiscard]] bool is_revoked() const { return may_be_revoked_ && asks_whether_revoked(); }

  // Checks a call for OFFBEAT_CHECK. Throws CommunicationError on all ranks if they do not make the same
  // call.
  void check(const CallSignature& mine);

  // Throws CommunicationError after an earlier failure.
  void require_intact() const {
    if (is_broken_) [[unlikely]]
      report_earlier_failure();
  }
  // Runs a call to its end. `chosen` is not native, and `bytes` is the length of the call. `stand_ins` is
  // null unless may_have_stand_ins().
  void run(Chosen chosen, const Call& call, std::size_t bytes, const StandInCopies* stand_ins = nullptr);
  // Returns true if a call that runs `chosen` may have a stand-in for a vector that is longer than an inline
  // slot. Each rank decides by itself which of its vectors have one.
  [[nodiscard]] static bool may_have_stand_ins(const Chosen& chosen, Collective collective);
  // Returns the result of `body`; an exception from it ends all use of this communicator. After an error the
  // ranks no longer agree on what was sent, so neither offbeat nor the host can serve it again. Ranks that
  // wait on its board get an error.
  template <class Body>
  auto or_break(Body&& body) {
    try {
      return body();
    } catch (...) {
      break_down();
      throw;
    }
  }
  // Calls `body` in this way, too, for work that precedes the collective. A failure is reported as one of
  // `collective`.
  template <class Body>
  auto or_break(Collective collective, const std::size_t& bytes, Body&& body) {
    try {
      return body();
    } catch (...) {
      if (!is_broken_) enter_board(collective, bytes);
      break_down();
      throw;
    }
  }

  // Runs a call that the host cannot serve. If the choice is `native`, an offbeat algorithm replaces it.
  // Returns false if the call cannot be served.
  [[nodiscard]] bool run_without_host(Call call);

  // Begins such a call, which then proceeds while the program computes. Returns null if the call cannot be
  // served. The operation may outlive the program's communicator.
  [[nodiscard]] std::unique_ptr<Operation> begin(const Call& call);

  // Chooses for a non-blocking call that the host can serve, too. It never waits for another rank.
  [[nodiscard]] Chosen choose_to_begin(Collective collective, std::size_t bytes, std::size_t width);
  // Begins what was chosen. The sequel follows in every case, unless this throws. A call that is over because
  // it is empty (is_over_if_empty) cannot be begun.
  void begin(std::unique_ptr<Operation>& operation, Chosen chosen, const Call& call, std::size_t bytes,
             Sequel sequel, const StandInCopies* stand_ins = nullptr);

  // Returns a pipeline in which the host runs the call in segments. `expression` was chosen for the call. The
  // pipeline must not outlive this object.
  [[nodiscard]] HostPipeline host_pipeline(const Expression& expression, const Call& call) const;

  // These functions are for intra-communicators of one rank, which have neither board nor messages.
  // copies_alone() returns true if offbeat serves their calls by a copy, and copy_alone() makes that copy.
  [[nodiscard]] bool copies_alone(Collective collective) const;
  static void copy_alone(const Call& call);

  // Records that the program makes non-blocking or persistent calls of `collective`. Such a call cannot wait
  // until all ranks have agreed on something. So the next blocking call of any collective provides what they
  // need. Communicators that are made from this one agree when they are made.
  void has_requests(Collective collective) {
    if (!requested_.contain(collective)) add_requested(collective);
  }
  [[nodiscard]] Collectives requested() const { return requested_; }

  // Makes the Communicator of a persistent request. It survives when the program frees its own communicator.
  // Ranks may start several persistent requests in different orders (MPI 5.0, section 6.13), so each request
  // has its own stage and tags. The requests share boards, so that the ranks make few boards and agree on
  // few. Collective, for `call`. Returns null on all ranks if one of them has no memory. Throws
  // std::bad_alloc.
  [[nodiscard]] std::unique_ptr<Communicator> apart(const Call& call);
  void hold();
  void let_go() noexcept;

  // Call when the program has freed its communicator. Returns true if no operation is under way; this object
  // may then be destroyed.
  [[nodiscard]] bool abandon();
  // Destroys a communicator once no operation is under way and the host may be called.
  static void abandon(std::unique_ptr<Communicator> communicator) noexcept;

  // Returns how to wait for collective `index` of those under way.
  [[nodiscard]] Patience patience_of(int index);

  // Counts a call that the program made.
  void count(Collective collective) {
    of(collective).intercepted.increment();
    ++calls_;
  }
  void count_served(Collective collective) { of(collective).served.increment(); }
  [[nodiscard]] Counts counts(Collective collective) const {
    return {of(collective).intercepted.value(), of(collective).served.value()};
  }

 private:
  friend class Operation;
  friend class OperationsUnderWay;

  struct OfCollective {
    Counter intercepted;
    Counter served;
  };
  [[nodiscard]] OfCollective& of(Collective collective) { return of_[index_of(collective)]; }
  [[nodiscard]] const OfCollective& of(Collective collective) const { return of_[index_of(collective)]; }

  [[nodiscard]] Choice choose_from_rows(Collective collective, std::size_t bytes, std::size_t width);
  // Combines the times of a trial over all ranks.
  void combine(std::span<std::uint64_t> times, CombineTimes how);
  // The part of `run` for calls without an immediate form.
  void run_task(const Expression& expression, const Call& call, const StandInCopies* stand_ins);
  [[noreturn]] void report_earlier_failure() const;

  // Setting up (communicator_set_up.cpp).

  // Returns the reason why the host must serve every call on a communicator, or an empty text if it need not.
  // It sends no message, allocates no memory, and gives equal answers on all ranks.
  [[nodiscard]] static std::string_view why_never_served(const Host& host, MPI_Comm communicator);
  // Lets the ranks agree on a team and a place in it. Arguments and result are those of start().
  [[nodiscard]] static bool agree(Communicator* mine, Runtime& process, SetUp& set_up, Collective collective);
  // Takes `shared` for messages if it is not null. `new_id` is the number of a private communicator that this
  // one may create.
  void share_messages(std::shared_ptr<PrivateCommunicator> shared, std::uint64_t new_id);
  // Brings the plans up to date. Call it before the first call of a collective and after a new choice. It is
  // collective if anything is missing.
  void refresh(Collective collective);
  void add_requested(Collective collective);
  // Returns true if everything exists that the plans of these collectives need.
  [[nodiscard]] bool are_provided(Collectives collectives) const;
  // Creates everything that the plans of these collectives need and that does not exist yet. Collective.
  void provide(SetUp& set_up, Collectives collectives);
  void find_board(SetUp& set_up);
  [[nodiscard]] bool find_messages(SetUp& set_up);
  [[nodiscard]] bool find_host_pipelines(SetUp& set_up);
  // Puts a newly found board or communicator for messages into use.
  void take_over();

  // Puts plans into use. Call it after the plans, or the means to carry them out, have changed.
  void apply();
  void leave_to_host(std::string_view why);
  [[nodiscard]] CommunicatorPlans::Which which_plans() const;
  // Returns the plans that may be in use now.
  [[nodiscard]] const Plans& plans() const { return plans_.present(which_plans()); }
  [[nodiscard]] bool asks_whether_revoked() const;
  // Throws CommunicationError if the program's communicator was revoked or has lost a process.
  void check_processes() const;
  // Ends all use of this communicator. Call it in the exception's handler.
  void break_down();
  // Choose for a call that the host cannot serve. A result without an expression means that offbeat cannot
  // serve it, either.
  [[nodiscard]] Chosen choose_without_host(const Call& call, std::size_t bytes);
  [[nodiscard]] Chosen choose_for_operation(const Call& call, std::size_t bytes);
  // Returns true if there is a communicator for messages. If there is none yet, this creates it, and is then
  // collective. Returns false if none can be created.
  [[nodiscard]] bool has_messages(Collective collective);
  [[nodiscard]] Endpoint endpoint(MpiTransport& transport, const Call& call,
                                  const Expression& expression) const {
    transport.serve(call.collective);
    return Endpoint(transport, rank_, size_, expression.lanes());
  }
  // Prepares a transport for collective `index` of those under way; 0 is the blocking one.
  void prepare(MpiTransport& transport, int index);
  // Returns a stage of the board, or null if there is no board or no such stage.
  [[nodiscard]] NodeBoard::Stage* stage_of_board(int index) {
    return has_board() && index < place_->board->stages() ? &place_->board->stage(index) : nullptr;
  }
  // Returns true if a place has tags for this stage.
  [[nodiscard]] static bool has_tags(int index) { return index < NodeBoard::stages_of_communicator; }
  // Record that an operation is under way, and that it is over. Call both within a Turn. forget() does not
  // use the operation, which may be gone.
  void accept(Operation& operation) noexcept;
  void forget(const Operation* operation, int index) noexcept;
  [[nodiscard]] MpiTransport& transport_of(int index);
  // Gives the host a turn after a collective that may not have called the host.
  void give_progress();
  // Records the present call for the report of a stall.
  void enter_board(Collective collective, std::size_t bytes) {
    if (board_ != nullptr) board_->enter(calls_, collective, bytes);
  }
  [[nodiscard]] bool has_board() const { return place_ != nullptr && place_->board != nullptr; }

  // Berths are the stages of a place that go to persistent requests, one by one and never twice. All ranks
  // make the requests of a communicator in one order, so they need not agree on each request.
  struct Berths {
    std::shared_ptr<Team::Place> place;  // null if there is no place, or no stage is left
    int next = 0;
    int end = 0;
    std::shared_ptr<const TeamPlans> plans;
    std::shared_ptr<PrivateCommunicator> messages;
    int tag_base = 0;
    bool board_was_tried = false;
  };
  // Returns the size of the board for persistent requests with calls like this one.
  [[nodiscard]] BoardSize size_of_board_for(const Call& call) const;
  // Returns true if a berth is left that has everything `collective` needs. All ranks get equal answers.
  [[nodiscard]] bool suffice(const Berths& berths, Collective collective) const;
  // Returns the berths that this Communicator, which has the first stage of its board, leaves for others.
  [[nodiscard]] Berths berths() const;
  // Takes the next of these berths for this Communicator.
  void use(const Berths& berths);

  // Returns the handle of the program's communicator, or null if the program has freed it.
  [[nodiscard]] MPI_Comm handle() const { return origin_ != nullptr ? origin_->handle_ : handle_; }

  Runtime& process_;
  const Communicator* const origin_;
  MPI_Comm handle_;
  const Selection* selection_;
  int rank_ = 0;
  int size_ = 1;
  bool is_one_rank_ = false;  // true if this is an intra-communicator of one rank
  bool may_be_revoked_ = false;
  const BoardSize board_size_;
  std::shared_ptr<Team::Place> place_;  // shared by the persistent requests that have berths there
  int stage_ = 0;           // the stage of the board for blocking calls, or for a request that works apart
  Board* board_ = nullptr;  // that stage; null if there is no board
  std::shared_ptr<PrivateCommunicator> messages_;  // created when needed, or shared
  std::uint64_t new_messages_id_ = 0;              // 0 if others must not share it
  int tag_base_ = 0;
  PrivateCommunicator host_pipelines_;       // created when needed; nothing else uses it
  Lateness lateness_;                        // for blocking calls
  std::unique_ptr<MpiTransport> transport_;  // null if every call goes to the host
  bool board_tried_ = false;
  bool is_broken_ = false;
  int failure_ = MPI_ERR_OTHER;  // the error of every later call
  bool is_abandoned_ = false;
  int in_use_ = 0;  // how many operations under way and persistent requests use this
  Communicator* next_abandoned_ = nullptr;
  std::uint64_t begun_ = 0;
  Collectives requested_;  // the collectives of non-blocking and persistent calls
  std::array<std::unique_ptr<MpiTransport>, NodeBoard::most_stages> transports_;  // for operations
  std::array<Operation*, NodeBoard::most_stages> last_on_stage_{};  // the last one under way, or null
  std::array<Berths, 2> berths_;  // for persistent requests that are short, and for others
  std::string_view why_native_;
  CommunicatorPlans plans_{*selection_};
  Adaptation adaptation_;
  Means begins_with_;  // what an operation may use if its begin must not wait
  bool is_verbose_ = false;
  Announcements announcements_;
  std::uint64_t calls_ = 0;  // calls of all collectives, including those through the C interface
  std::array<OfCollective, collectives.size()> of_;
};

}  // namespace offbeat
