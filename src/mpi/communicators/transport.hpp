// SPDX-License-Identifier: BSD-3-Clause
// MpiTransport sends messages over the host MPI's point-to-point calls, on a private communicator.
#pragma once

#include <array>
#include <cstdint>
#include <vector>

#include "collectives/algorithm.hpp"
#include "mpi/communicators/node_board.hpp"
#include "mpi/communicators/team.hpp"
#include "mpi/host/host.hpp"
#include "mpi/types/stand_in.hpp"
#include "node/board.hpp"
#include "node/shared_copies.hpp"
#include "transport/endpoint.hpp"

namespace offbeat {

// HostCalls says which host functions code that advances a task may call. `messages`: those that send and
// test messages. `all`: also turns of the host, but not from inside the host. `none`: for example in a thread
// of offbeat.
enum class HostCalls : std::uint8_t { none, messages, all };

class MpiTransport final : public Transport, public BoardWaiters {
 public:
  MpiTransport(const Host& host, const Patience& patience)
      : host_(&host), communicator_(MPI_COMM_NULL), patience_(patience) {}

  // A place has one tag for each lane of each collective under way, and one for failures.
  static constexpr int failure_tag = NodeBoard::stages_of_communicator * most_lanes;
  static constexpr int tags = failure_tag + 1;

  // Call before the first message. Messages have tags from `tag_base` on. This class never frees the
  // communicator.
  void use(MPI_Comm communicator, int tag_base) {
    communicator_ = communicator;
    tag_base_ = tag_base;
  }
  // Takes from the team where the ranks are, and how long messages between them may be. The team must outlive
  // this.
  void use(const Team& team) {
    locality = &team.locality();
    longest_between_nodes_ = team.longest_message_between_nodes();
  }
  // Makes each long wait call `turn`. From then on, no wait is inside a blocking call of the host.
  void watch(const TurnCall& turn) {
    patience_.turn = turn;
    may_block_ = false;
  }
  // Uses the board of the node's ranks, which must outlive this. Its patience replaces that of the transport,
  // because the board knows more. The locality must be set.
  void use(Board& board);

  [[nodiscard]] bool start(Transfer& transfer) override;
  [[nodiscard]] bool start(Computation& computation) override {
    if (stand_ins_ != nullptr && computation.operand_count == 1) [[unlikely]] {
      if (stand_ins_->copy(computation.destination.data,
                           static_cast<const std::byte*>(computation.operands[0]),
                           computation.destination.bytes()))
        return true;
    }
    if (computation.to_shared && computation.operand_count == 1) {
      copies_[index_of(collective_)].copy(computation.destination.data, computation.operands[0],
                                          computation.destination.bytes());
    } else {
      computation.perform();
    }
    return true;
  }

  [[nodiscard]] bool others_can_run() const override { return branches > 1; }
  void wait_for_board(std::coroutine_handle<> waiter, bool begins) override {
    at_board_.push_back(waiter);
    got_further_ = got_further_ || begins;
  }

  // Runs a task to its end, and waits. Throws what the task throws. After a CommunicationError no message is
  // left in flight, and the communicator must not be used again. `stand_ins` makes copies from and to the
  // task's stand-ins; null if it has none.
  void drive(Task& task, const StandInCopies* stand_ins);

  // Run a task without waiting, one task at a time. begin() runs it up to the first wait. advance() does what
  // can be done now, and returns true if the task has ended. Both throw like drive().
  void begin(Task& task, const StandInCopies* stand_ins);
  [[nodiscard]] bool advance(Task& task, bool& got_further, HostCalls calls);

  // Sets the collective that the next task carries out.
  void serve(Collective collective) { collective_ = collective; }

  // Returns how to wait for messages and for the board.
  [[nodiscard]] const Patience& patience() const { return patience_; }

 private:
  // Does the transfer in one blocking call, and returns true if it may. The lengths must fit an int, and
  // nothing else may have to advance meanwhile.
  bool transfer_at_once(const Transfer& transfer) const;
  // Begin the next part of a transfer, if it has that direction.
  void post_send(Transfer& transfer);
  void post_receive(Transfer& transfer);
  // Returns the longest message to or from a rank, in bytes. A longer vector travels as several messages, cut
  // alike on both sides.
  [[nodiscard]] std::size_t longest_message_of(int rank) const;
  // Tests all messages once and resumes the waiters of those that are complete. Returns false if nothing
  // moved.
  bool test_messages();
  [[nodiscard]] int tag(const Transfer& transfer) const { return tag_base_ + transfer.lane; }
  // Lets the waiters for the board look again.
  void look_at_board();
  // Tests messages and looks at the board, once. Returns false if no message moved and each waiter for the
  // board still waits for the same thing.
  bool move();
  // Returns true if the task has ended. Throws what the task, or a branch of it, threw.
  [[nodiscard]] bool is_over(const Task& task) const;
  template <class Body>
  void guarded(Task& task, Body&& body);
  // Forgets all messages. Returns true if some were under way.
  bool abandon() noexcept;
  void check(int code) const;

  const Host* host_;
  MPI_Comm communicator_;
  int tag_base_ = 0;
  MPI_Datatype byte_ = MPI_BYTE;
  bool may_block_ = true;
  std::size_t longest_between_nodes_ = longest_message;
  Collective collective_ = Collective::allreduce;
  std::array<SharedCopies, collectives.size()> copies_;
  const StandInCopies* stand_ins_ = nullptr;  // for the vectors of the task
  Patience patience_;                         // for waits with messages under way, for which no bell rings
  struct Owner {
    Transfer* transfer;
    bool sends;
  };
  template <class Begin>
  void post(Owner owner, Begin&& begin);

  // Message k is requests_[k], for owners_[k]. The other vectors are work space of test_messages(). All keep
  // their capacity.
  std::vector<MPI_Request> requests_;
  std::vector<Owner> owners_;
  std::vector<int> completed_;
  std::vector<MPI_Status> statuses_;
  std::vector<std::coroutine_handle<>> ready_;
  std::vector<Owner> unfinished_;  // transfers whose part is complete, with further parts to come
  std::vector<std::coroutine_handle<>> at_board_;
  std::vector<std::coroutine_handle<>> looking_;
  bool got_further_ = false;  // true if a waiter for the board has begun a new wait since the last look
};

}  // namespace offbeat
