// SPDX-License-Identifier: BSD-3-Clause
// Communicator carries out the calls on one communicator of the program. It is an attribute of that one, and
// has three parts: its plans decide, its means carry out, and its life says how long.
//
// Collective calls on one communicator never overlap (MPI 5.0, section 6.14), so nothing here is locked.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <span>
#include <string_view>

#include "collectives/algorithm.hpp"
#include "groups/call_arguments.hpp"
#include "groups/call_timer.hpp"
#include "groups/counts.hpp"
#include "groups/operations_under_way.hpp"
#include "mpi/communicators/adaptation.hpp"
#include "mpi/communicators/announcements.hpp"
#include "mpi/communicators/check.hpp"
#include "mpi/communicators/communicator_life.hpp"
#include "mpi/communicators/communicator_means.hpp"
#include "mpi/communicators/communicator_plans.hpp"
#include "mpi/operations/host_pipeline.hpp"

namespace offbeat {

class Runtime;
class MpiSetUp;

class Communicator final : public OperationsOwner {
 public:
  // Allocates all memory that is needed before the first message, because that may fail on one rank alone.
  // The second constructor makes a Communicator that works apart, for persistent requests. `origin` must
  // outlive it.
  Communicator(Runtime& process, MPI_Comm handle);
  Communicator(const Communicator& origin, const BoardSize& board_size);
  ~Communicator() override;

  // Sets up the Communicator. Call this before the first use, for `collective`; it is collective over
  // `handle`. `mine` is null on a rank that has no memory for it. Returns false on all ranks if any rank
  // failed; every rank must then discard its own.
  [[nodiscard]] static bool start(Communicator* mine, Runtime& process, MPI_Comm handle,
                                  Collective collective);

  // Returns true if the ranks have nothing to agree on. This holds for a communicator of one rank.
  [[nodiscard]] static bool needs_no_agreement(const Host& host, MPI_Comm handle) {
    return host.size_of(handle) == 1;
  }

  // Returns what the plan says for a call of this length (Call::length) with elements of `width` bytes.
  [[nodiscard]] Choice choose(Collective collective, std::size_t bytes, std::size_t width) {
    if (!plans_.is_up_to_date(collective)) [[unlikely]]
      update_plans(collective);
    const PlanInUse& mine = plans_.of(collective);
    if (mine.is_in_immediate_row(bytes)) [[likely]]
      return {mine.immediate_row()};
    return choose_from_rows(collective, bytes, width);
  }
  // Call this when a call begins whose alternative a trial chose, unless RowTrial::try_count_call() has
  // counted it. If the trial is then due, the ranks decide at the next blocking call of any collective.
  void begin_measured(RowTrial& row, const Call& call) {
    row.begin_call(call, rank_, size_);
    if (row.is_due()) [[unlikely]]
      plans_.mark_outdated();
  }
  [[nodiscard]] MeasuredCall begin_measured_request(RowTrial& row, const Call& call);
  // Prints what `choose` finds for such calls, if OFFBEAT_VERBOSE is set. It has no influence on decisions.
  void announce(Collective collective, std::size_t bytes) {
    if (is_verbose_) [[unlikely]]
      announcements_.say_choice(collective, CallForm::blocking, plans_.of(collective).plan(), bytes, size_,
                                why_native_);
  }
  // Likewise prints what `choose_to_begin` finds.
  void announce_begun(Collective collective, std::size_t bytes);
  [[nodiscard]] bool serves() const { return why_native_.empty(); }
  [[nodiscard]] bool is_inter() const;
  [[nodiscard]] int rank() const { return rank_; }
  [[nodiscard]] int size() const { return size_; }
  [[nodiscard]] const CommunicatorLife& life() const { return life_; }

  // Checks a call for OFFBEAT_CHECK. Throws CommunicationError on all ranks if they do not make the same
  // call.
  void check(const CallSignature& mine);

  // Runs a call to its end. `chosen` is not native, and `bytes` is the length of the call. `stand_ins` is
  // null unless may_have_stand_ins().
  void run(ChosenAlternative chosen, const Call& call, std::size_t bytes,
           const StandInCopies* stand_ins = nullptr);
  // Returns true if a call that runs `chosen` may have a stand-in for a vector that is longer than an inline
  // slot, or leave such a vector on its device. Each rank decides by itself which of its vectors do.
  [[nodiscard]] static bool may_have_stand_ins(const ChosenAlternative& chosen, Collective collective);
  // Returns the result of `body`; an exception from it ends all use of this communicator. After an error the
  // ranks no longer agree on what was sent, so neither offbeat nor the host can serve it again. Ranks that
  // wait on its board get an error.
  template <class Body>
  auto break_on_error(Body&& body) {
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
  auto break_on_error(Collective collective, const std::size_t& bytes, Body&& body) {
    try {
      return body();
    } catch (...) {
      if (!life_.is_broken()) record_call_on_board(collective, bytes);
      break_down();
      throw;
    }
  }

  // Runs a call that the host cannot serve. If the choice is `native`, an offbeat algorithm replaces it.
  // Returns false if the call cannot be served.
  [[nodiscard]] bool run_without_host(PreparedCall& prepared);

  // Begins such a call, which then proceeds while the program computes. Returns null if the call cannot be
  // served. The operation may outlive the program's communicator.
  [[nodiscard]] std::unique_ptr<Operation> begin(PreparedCall& prepared);

  // Chooses for a non-blocking call that the host can serve, too. It never waits for another rank.
  [[nodiscard]] Choice choose_to_begin(Collective collective, std::size_t bytes, std::size_t width);
  // Begins the chosen alternative. The sequel is always called later, unless this throws. Do not begin a call
  // that is over because it is empty (skips_empty_calls).
  void begin(std::unique_ptr<Operation>& operation, ChosenAlternative chosen, const Call& call,
             std::size_t bytes, Sequel sequel, const StandInCopies* stand_ins = nullptr);

  // Returns a pipeline in which the host runs the call in segments. `expression` was chosen for the call. The
  // pipeline must not outlive this object.
  [[nodiscard]] HostPipeline host_pipeline(const Expression& expression, const Call& call) const;

  // These functions are for intra-communicators of one rank, which have neither board nor messages.
  // copies_alone() returns true if offbeat serves their calls by a copy, and copy_alone() makes that copy. A
  // call that gives more than it takes is an error, which the host reports.
  [[nodiscard]] bool copies_alone(Collective collective) const;
  [[nodiscard]] bool copies_alone(const Call& call) const;
  static void copy_alone(const Call& call);

  // Records that the program makes non-blocking or persistent calls of `collective`. Such a call cannot wait
  // until all ranks have agreed on something. So the next blocking call of any collective provides what they
  // need. Communicators that are made from this one agree when they are made.
  void has_requests(Collective collective) {
    if (!requested_.contain(collective)) add_requested_collective(collective);
  }
  [[nodiscard]] Collectives requested_collectives() const { return requested_; }

  // Makes the Communicator of a persistent request. It survives when the program frees its own communicator.
  // Ranks may start several persistent requests in different orders (MPI 5.0, section 6.13), so each request
  // has its own stage and tags. The requests share boards, so the ranks make and agree on only a few.
  // Collective, for `call`. Returns null on all ranks if one of them has no memory. Throws std::bad_alloc.
  [[nodiscard]] std::unique_ptr<Communicator> make_for_request(const Call& call);
  void add_reference();
  void remove_reference() noexcept;

  // Call before MPI_Finalize: this process may end from then on.
  void leave() noexcept {
    if (means_.have_board()) means_.node_board().leave();
  }
  // Call when the program has freed its communicator. Returns true if no operation is under way; this object
  // may then be destroyed.
  [[nodiscard]] bool abandon();
  // Destroys a communicator once no operation is under way and the host may be called.
  static void abandon(std::unique_ptr<Communicator> communicator) noexcept;

  // Returns the communicator on which the host runs this native(NAME), or null if there is none.
  [[nodiscard]] MPI_Comm shadow_of(const Expression* named) const { return means_.shadow_of(named); }

  // Call when the host has rejected a call of this rank, which may then be a call behind the others. So the
  // next communicator of these ranks shares nothing with this one.
  void note_left_out() noexcept { was_left_out_ = true; }

  // Counts a call that the program made, and begins its time if it is blocking.
  void count(Collective collective) {
    timer_.of(collective).calls.increment();
    ++calls_;
  }
  void begin_blocking(Collective collective) {
    count(collective);
    timer_.begin(collective, calls_, [&] { return board_for_arrivals(); });
  }
  void count_bytes(Collective collective, std::size_t bytes) { timer_.of(collective).bytes.add(bytes); }
  void count_served(Collective collective) { timer_.of(collective).served.increment(); }
  // Ends the time of a blocking call that ran `ran`, or the host's own choice if that is null.
  void end_blocking(Collective collective, const Expression* ran) {
    timer_.end(
        collective, [&] { return board_for_arrivals(); }, ran);
  }
  [[nodiscard]] Counts counts(Collective collective) const {
    return {timer_.of(collective).calls.value(), timer_.of(collective).served.value()};
  }

 private:
  Communicator(Runtime& process, MPI_Comm handle, std::string_view why_native);

  // What operations need.
  [[nodiscard]] Patience patience_of(int index) override { return means_.patience_of(index); }
  void prepare(BoardTransport& transport, int index) override { means_.prepare(transport, index); }
  void show_wait(const Operation* awaited) noexcept override;
  void require_intact() const override { life_.require_intact(); }
  void break_down() override;
  void begin_use() noexcept override { life_.begin_use(); }
  [[nodiscard]] bool end_use() noexcept override { return life_.end_use(); }

  [[nodiscard]] NodeBoard* board_for_arrivals() const {
    return means_.have_board() ? &means_.node_board() : nullptr;
  }
  // Say in the counters which communicator this is; the second one when the ranks have agreed on its place.
  void name_counters();
  void identify_counters();

  [[nodiscard]] Choice choose_from_rows(Collective collective, std::size_t bytes, std::size_t width);
  // Chooses as choose() does, but leaves trials that are due to the next blocking call.
  [[nodiscard]] Choice choose_without_deciding_trials(Collective collective, std::size_t bytes,
                                                      std::size_t width);
  // Lets the ranks combine the times of a trial that is due, and decide. Collective.
  void decide_trial(RowTrial& row);
  // Combines times over all ranks. Collective.
  void combine_over_ranks(std::span<std::uint64_t> times, CombineTimes how);
  // Runs a call without an immediate form, for run().
  void run_task(const Expression& expression, const Call& call, const StandInCopies* stand_ins);

  // Plans and means (communicator_set_up.cpp).

  // Brings the plans up to date. Call it before the first call of a collective and after a new choice. It is
  // collective if anything is missing.
  void update_plans(Collective collective);
  void add_requested_collective(Collective collective);
  // Returns true if everything exists that the plans of these collectives need.
  [[nodiscard]] bool has_means_for(Collectives collectives) const;
  // Creates everything that the plans of these collectives need and that does not exist yet. Collective.
  void create_missing(MpiSetUp& set_up, Collectives collectives);
  // Puts plans into use. Call it after the plans, or the means to carry them out, have changed.
  void put_plans_into_use();
  void leave_to_host(std::string_view why);
  // Choose for a call that the host cannot serve. A result without an expression means that offbeat cannot
  // serve it, either.
  [[nodiscard]] ChosenAlternative choose_without_host(ChosenAlternative chosen, const Call& call,
                                                      std::size_t bytes);
  [[nodiscard]] ChosenAlternative choose_for_operation(const Call& call, std::size_t bytes);
  // Returns true if there is a communicator for messages. If there is none yet, this creates it, and is then
  // collective. Returns false if none can be created.
  [[nodiscard]] bool has_messages(Collective collective);
  [[nodiscard]] Endpoint endpoint(MpiTransport& transport, const Call& call,
                                  const Expression& expression) const {
    transport.serve(call.collective);
    return Endpoint(transport, rank_, size_, expression.lanes());
  }
  // Gives the host a turn after a collective that may not have called the host.
  void give_turn();
  // Records the present call for the report of a stall.
  void record_call_on_board(Collective collective, std::size_t bytes) {
    if (Board* board = means_.board()) board->enter(calls_, collective, bytes);
  }

  // RequestStages are the stages of a place for persistent requests. Each stage is given out once. All ranks
  // make the requests of a communicator in one order, so they need not agree on each request.
  struct RequestStages {
    SharedMeans means;  // without a place if no stage is left
    std::shared_ptr<const TeamPlans> plans;
    int next = 0;
    int end = 0;
  };
  // Returns the size of the board for persistent requests with calls like this one.
  [[nodiscard]] BoardSize size_of_board_for(const Call& call) const;
  // Returns true if a stage is left that has everything `collective` needs. All ranks get equal answers.
  [[nodiscard]] bool has_stage_for(const RequestStages& request_stages, Collective collective) const;
  // Returns the stages that this Communicator leaves for others. It has the first stage of its board itself.
  [[nodiscard]] RequestStages request_stages() const;
  // Takes the next of these stages for this Communicator.
  void use(const RequestStages& request_stages);

  Runtime& process_;
  CommunicatorLife life_;
  bool is_one_rank_ = false;     // true if this is an intra-communicator of one rank
  std::string_view why_native_;  // why the host serves every call; empty if it does not
  CommunicatorMeans means_;
  Collectives requested_;                        // those of non-blocking and persistent calls
  std::array<RequestStages, 2> request_stages_;  // for persistent requests that are short, and for others
  CommunicatorPlans plans_;
  Adaptation adaptation_;
  Means means_for_begin_;  // what an operation may use if its begin must not wait
  bool is_verbose_ = false;
  bool was_left_out_ = false;  // true if the host has rejected a call of this rank
  Announcements announcements_;
  std::uint64_t calls_ = 0;      // calls of all collectives, including those through the C interface
  CounterFile::Owner counters_;  // null: this works apart, and counts nothing
  CallTimer timer_;
};

inline void Communicator::run(ChosenAlternative chosen, const Call& call, std::size_t bytes,
                              const StandInCopies* stand_ins) {
  if (bytes == 0 && skips_empty_calls(call.collective)) return;
  record_call_on_board(call.collective, bytes);
  break_on_error([&] {
    if (chosen.immediate_form != nullptr && chosen.immediate_form(*means_.board(), call)) return;
    run_task(*chosen.expression, call, stand_ins);
  });
  if (TurnDue::is_due_after_call()) [[unlikely]]
    give_turn();
}

}  // namespace offbeat
