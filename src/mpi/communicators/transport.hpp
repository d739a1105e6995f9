// SPDX-License-Identifier: BSD-3-Clause
// MpiTransport sends messages over the host MPI's point-to-point calls, on a private communicator.
#pragma once

#include <cstdint>
#include <vector>

#include "groups/board_transport.hpp"
#include "groups/node_board.hpp"
#include "mpi/communicators/team.hpp"
#include "mpi/host/host.hpp"
#include "node/board.hpp"
#include "transport/endpoint.hpp"

namespace offbeat {

class MpiTransport final : public BoardTransport {
 public:
  MpiTransport(const Host& host, const Patience& patience)
      : BoardTransport(patience), host_(&host), communicator_(MPI_COMM_NULL) {}

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
  void use(const Team& team) { use(team.locality(), team.longest_message_between_nodes()); }
  void use(const Locality& where, std::size_t longest_between_nodes) {
    locality = &where;
    longest_between_nodes_ = longest_between_nodes;
  }
  // Makes each long wait call `turn`. From then on, no wait is inside a blocking call of the host.
  void call_turn_in_waits(const TurnCall& turn) {
    patience_.turn = turn;
    may_block_ = false;
  }
  // Uses the board of the node's ranks, which must outlive this. The locality must be set.
  void use(Board& board);

  using BoardTransport::start;
  [[nodiscard]] bool start(Transfer& transfer) override;
  [[nodiscard]] bool needs_host() const override { return true; }

 private:
  [[nodiscard]] bool has_messages() const override { return !requests_.empty(); }
  bool test_messages() override;
  bool abandon_messages() noexcept override;
  // Does the transfer in one blocking call, and returns true if it may. The lengths must fit an int, and
  // nothing else may have to advance meanwhile.
  bool try_blocking_transfer(const Transfer& transfer) const;
  // post_send() begins the next message of a transfer that sends, post_receive() of one that receives. They
  // do nothing for a transfer without that direction.
  void post_send(Transfer& transfer);
  void post_receive(Transfer& transfer);
  // Returns the longest message to or from a rank, in bytes. A longer vector travels as several messages, cut
  // alike on both sides.
  [[nodiscard]] std::size_t longest_message_of(int rank) const;
  [[nodiscard]] int tag(const Transfer& transfer) const { return tag_base_ + lane_of(transfer); }
  void check(int code) const;

  const Host* host_;
  MPI_Comm communicator_;
  int tag_base_ = 0;
  MPI_Datatype byte_type_ = MPI_BYTE;
  bool may_block_ = true;
  std::size_t longest_between_nodes_ = longest_message;
  struct RequestOwner {
    Transfer* transfer;
    bool is_send;
  };
  template <class Begin>
  void post(RequestOwner owner, Begin&& begin);

  // Message k is requests_[k], for owners_[k]. The other vectors are work space of test_messages(). All keep
  // their capacity.
  std::vector<MPI_Request> requests_;
  std::vector<RequestOwner> owners_;
  std::vector<int> completed_indices_;
  std::vector<MPI_Status> statuses_;
  std::vector<std::coroutine_handle<>> resumable_;
  // Transfers whose part is complete, with further parts to come.
  std::vector<RequestOwner> transfers_with_more_parts_;
};

}  // namespace offbeat
