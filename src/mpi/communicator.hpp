// SPDX-License-Identifier: BSD-3-Clause
// The state that offbeat keeps for one communicator of the program, as an attribute of it.
//
// Collective calls on one communicator never overlap (MPI 5.0, section 6.14), so nothing here is locked.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <memory>
#include <optional>
#include <string_view>

#include "collectives/algorithm.hpp"
#include "mpi/check.hpp"
#include "mpi/host_turn.hpp"
#include "mpi/node_board.hpp"
#include "mpi/operation.hpp"
#include "mpi/private_communicator.hpp"
#include "mpi/team.hpp"
#include "mpi/transport.hpp"
#include "selection/selection.hpp"

namespace offbeat {

class Runtime;
class SetUp;

// How calls were served. Written by one thread at a time, read by any: relaxed loads and stores, no locked
// instruction.
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
  // Takes the memory that is needed until the first message; here, because it may fail on one rank alone.
  Communicator(Runtime& process, MPI_Comm handle);
  ~Communicator();
  Communicator(const Communicator&) = delete;
  Communicator& operator=(const Communicator&) = delete;

  // Before the first use, for `collective`; collective over `handle`. `mine`: null on a rank that has no memory for it. False,
  // on all ranks: one of them could not be made, and nobody is to keep its own.
  [[nodiscard]] static bool start(Communicator* mine, Runtime& process, MPI_Comm handle,
                                  Collective collective);

  // For a call of `count` elements. Null: leave it to the host.
  [[nodiscard]] const Expression* choose(Collective collective, std::size_t count, std::size_t width) {
    const OfCollective& mine = of(collective);
    if (mine.generation != selection_->generation()) [[unlikely]]
      refresh(collective);
    const std::size_t bytes = count * width;
    if (bytes < mine.immediate_below && !is_verbose_) [[likely]]
      return mine.at_once;
    return choose_from_list(mine, collective, bytes, width);
  }
  [[nodiscard]] bool serves() const { return transport_ != nullptr; }
  // The program has revoked it (ULFM): the host reports that.
  [[nodiscard]] bool is_revoked() const { return may_be_revoked_ && asks_whether_revoked(); }

  // OFFBEAT_CHECK: throws CommunicationError, on all ranks, if they do not make the same call.
  void check(const CallSignature& mine);

  // Throws CommunicationError after an earlier failure.
  void require_intact() const {
    if (is_broken_) [[unlikely]]
      report_earlier_failure();
  }
  void run(const Expression& expression, const Call& call);
  // For calls that the host cannot serve: where its own algorithm was chosen, one of ours takes its place.
  // False: it cannot be served.
  [[nodiscard]] bool run_without_host(Call call);

  // The same for a collective that goes on while the program computes. Null: it cannot be served. It may
  // outlive the program's communicator.
  [[nodiscard]] std::unique_ptr<Operation> begin(const Call& call);

  // The program has freed its communicator. True: no operation is under way, and this may be destroyed.
  [[nodiscard]] bool abandon();

  // A call of the program has come here.
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

  // What is kept for each collective.
  struct OfCollective {
    Counter intercepted;
    Counter served;
    std::uint64_t generation = 0;  // of the choices; older: they have to be looked at again
    // Shorter calls take the immediate form of the first choice: here, so that they read no more than this.
    std::size_t immediate_below = 0;
    const Expression* at_once = nullptr;
    void (*run_at_once)(Board& board, const Call& call) = nullptr;
    const Choices* choices = nullptr;  // null: the host serves it
    std::uint64_t announced = 0;       // bit k: choice k, and the last one for all that follow
  };
  [[nodiscard]] OfCollective& of(Collective collective) { return of_[index_of(collective)]; }
  [[nodiscard]] const OfCollective& of(Collective collective) const { return of_[index_of(collective)]; }

  [[nodiscard]] const Expression* choose_from_list(const OfCollective& mine, Collective collective,
                                                   std::size_t bytes, std::size_t width);
  [[noreturn]] void report_earlier_failure() const;

  // Setting up (communicator_set_up.cpp).

  // Why the host serves every call on a communicator; empty: it need not. No message, no memory, and the same
  // answer on all ranks.
  [[nodiscard]] static std::string_view why_never_served(const Host& host, MPI_Comm communicator);
  // The ranks agree on a team and a place there. Like start.
  [[nodiscard]] static bool agree(Communicator* mine, Runtime& process, SetUp& set_up,
                                  Collective collective);
  // `shared`: null if there is none. `new_id`: of one that this communicator may make.
  void share_messages(std::shared_ptr<PrivateCommunicator> shared, std::uint64_t new_id);
  // Before the first call of a collective, and after another choice. Collective, if anything is missing.
  void refresh(Collective collective);
  // Whether all that the choices for a collective use is there.
  [[nodiscard]] bool is_provided(Collective collective) const;
  // Collective. What the choices for `collective` use and is not there yet.
  void provide(SetUp& set_up, Collective collective, bool has_room_for_messages);
  void find_board(SetUp& set_up);
  [[nodiscard]] bool find_messages(SetUp& set_up, bool has_room);
  // After a board or a communicator for messages was found: who uses them.
  void take_over();

  // After the choices or the means to run them have changed.
  void apply();
  void leave_to_host(std::string_view why);
  [[nodiscard]] const ChoiceTable& table() const;
  void announce(Collective collective, const Choice& choice);
  [[nodiscard]] bool asks_whether_revoked() const;
  // Throws CommunicationError where the program's communicator was revoked, or has lost a process.
  void check_processes() const;
  // An exception of `body` ends all use of this communicator. After an error ranks no longer agree on what
  // was sent: nobody can serve it again, not even the host. The ranks that wait on its board are told.
  template <class Body>
  void or_break(Body&& body) {
    try {
      body();
    } catch (...) {
      break_down();
      throw;
    }
  }
  // In a handler of the exception.
  void break_down();
  // Null: it cannot be served.
  [[nodiscard]] const Expression* choose_without_host(const Call& call);
  [[nodiscard]] Endpoint endpoint(MpiTransport& transport, const Expression& expression) const {
    return Endpoint(transport, rank_, size_, expression.lanes());
  }
  // For collective `index` of those under way; 0: the blocking one.
  void prepare(MpiTransport& transport, int index);
  // Null: there is no board.
  [[nodiscard]] NodeBoard::Stage* stage_of_board(int index) {
    return has_board() ? &place_->board->stage(index) : nullptr;
  }
  // An operation is over. May destroy this communicator.
  void forget(const Operation& operation) noexcept;
  // To the host, after a collective that may have made no call to it.
  void give_progress();
  // For the report of a stall.
  void enter_board(Collective collective, std::size_t bytes) {
    if (board_ != nullptr) board_->enter(calls_, collective, bytes);
  }
  [[nodiscard]] bool has_board() const { return place_ && place_->board != nullptr; }

  Runtime& process_;
  MPI_Comm handle_;
  const Selection* selection_;
  int rank_ = 0;
  int size_ = 1;
  bool is_one_rank_ = false;  // of an intra-communicator
  bool may_be_revoked_ = false;
  std::optional<HostTurn> turn_;  // before the board, which takes it
  std::optional<Team::Place> place_;
  Board* board_ = nullptr;                         // of the place; null: there is none
  std::shared_ptr<PrivateCommunicator> messages_;  // to be made when it is needed, or shared
  std::uint64_t new_messages_id_ = 0;              // 0: not to be shared
  int tag_base_ = 0;
  std::unique_ptr<MpiTransport> transport_;  // null: every call goes to the host
  bool board_tried_ = false;
  bool is_broken_ = false;
  int failure_ = MPI_ERR_OTHER;  // of every later call
  bool is_abandoned_ = false;
  int under_way_ = 0;  // operations
  std::uint64_t begun_ = 0;
  std::array<Operation*, NodeBoard::stages> last_on_stage_{};  // under way; null: none
  std::string_view why_native_;
  std::shared_ptr<const TeamChoices> choices_;
  bool is_verbose_ = false;
  std::uint64_t calls_ = 0;  // of all collectives, those of the C interface among them
  std::array<OfCollective, collectives.size()> of_;
};

}  // namespace offbeat
