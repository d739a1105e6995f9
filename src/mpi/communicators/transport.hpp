// SPDX-License-Identifier: BSD-3-Clause
// Messages over the host MPI's point-to-point calls, on a private communicator.
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

// What those who advance a task may call. Messages: what sends and tests them. All: turns of the host, too,
// but not from inside the host. None: in a thread that is not the program's, for example.
enum class HostCalls : std::uint8_t { none, messages, all };

class MpiTransport final : public Transport, public BoardWaiters {
 public:
  MpiTransport(const Host& host, const Patience& patience)
      : host_(&host), communicator_(MPI_COMM_NULL), patience_(patience) {}

  // The tags of one place: one for each lane of each collective under way, and one for failures.
  static constexpr int failure_tag = NodeBoard::stages_of_communicator * most_lanes;
  static constexpr int tags = failure_tag + 1;

  // Call before the first message. Messages have tags from `tag_base` on. The communicator is not freed here.
  void use(MPI_Comm communicator, int tag_base) {
    communicator_ = communicator;
    tag_base_ = tag_base;
  }
  // Where the ranks are, and how long messages between them may be. The team must outlive this.
  void use(const Team& team) {
    locality = &team.locality();
    longest_between_nodes_ = team.longest_message_between_nodes();
  }
  // Calls `progress` in each long wait. No wait is then inside a blocking call of the host.
  void watch(const Progress& progress) {
    patience_.progress = progress;
    may_block_ = false;
  }
  // The board of the node's ranks, which must outlive this. Its patience, being better informed, replaces
  // ours. The locality is set.
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

  // Runs a task to its end, waiting. Throws what the task throws; after a CommunicationError no message is
  // left in flight and the communicator must not be used again. `stand_ins` copies where the task has
  // stand-ins; null: it has none.
  void drive(Task& task, const StandInCopies* stand_ins);

  // The same without waiting. begin() runs up to the first wait. advance() does what can be done now, and is
  // true when the task is at its end. One task at a time. Both throw like drive().
  void begin(Task& task, const StandInCopies* stand_ins);
  [[nodiscard]] bool advance(Task& task, bool& got_further, HostCalls calls);

  // The collective that the next task carries out.
  void serve(Collective collective) { collective_ = collective; }

  // For waiting for messages and for the board.
  [[nodiscard]] const Patience& patience() const { return patience_; }

 private:
  // True: done in one blocking call. The lengths must fit an int, and nothing else may have to advance.
  bool transfer_at_once(const Transfer& transfer) const;
  // Begins the next part, if the transfer has that direction.
  void post_send(Transfer& transfer);
  void post_receive(Transfer& transfer);
  // Of a message to or from a rank, in bytes. Longer vectors travel as several, cut alike on both sides.
  [[nodiscard]] std::size_t longest_message_of(int rank) const;
  // Tests all messages once and resumes the waiters of those that are complete. False: nothing moved.
  bool progress();
  [[nodiscard]] int tag(const Transfer& transfer) const { return tag_base_ + transfer.lane; }
  // Lets the waiters for the board look again.
  void look_at_board();
  // Does both once. False: no message moved, and each waiter for the board still waits for the same thing.
  bool move();
  // Throws what the task, or a branch of it, threw.
  [[nodiscard]] bool is_over(const Task& task) const;
  template <class Body>
  void guarded(Task& task, Body&& body);
  // Forgets all messages. True: some were under way.
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
  const StandInCopies* stand_ins_ = nullptr;  // of the task
  Patience patience_;                         // while messages are under way: no bell rings when one comes
  struct Owner {
    Transfer* transfer;
    bool sends;
  };
  template <class Begin>
  void post(Owner owner, Begin&& begin);

  // Message k is requests_[k], for owners_[k]. The other vectors are work space of progress(). All keep their
  // capacity.
  std::vector<MPI_Request> requests_;
  std::vector<Owner> owners_;
  std::vector<int> completed_;
  std::vector<MPI_Status> statuses_;
  std::vector<std::coroutine_handle<>> ready_;
  std::vector<Owner> unfinished_;  // one part is complete, and there are more
  std::vector<std::coroutine_handle<>> at_board_;
  std::vector<std::coroutine_handle<>> looking_;
  bool got_further_ = false;  // since the last look, a waiter for the board began a new wait
};

}  // namespace offbeat
