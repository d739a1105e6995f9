// SPDX-License-Identifier: BSD-3-Clause
// MpiBoardClient is the host MPI as a board sees it: it moves messages while ranks wait, and carries failures
// to other nodes.
#pragma once

#include <memory>
#include <optional>

#include "groups/network_client.hpp"
#include "groups/node_board.hpp"
#include "mpi/communicators/team_network.hpp"
#include "mpi/host/fault_tolerance.hpp"
#include "mpi/host/host.hpp"
#include "mpi/host/host_turn.hpp"

namespace offbeat {

class MpiBoardClient final : public BoardClient {
 public:
  // `own` is a communicator of this rank alone. To test a receive on it lets the host move other messages.
  MpiBoardClient(const Host& host, const FaultTolerance& faults, MPI_Comm own, const Locality& locality)
      : host_(host), fault_tolerance_(faults), host_turn_(host, own), locality_(locality) {}

  // Failures are sent to ranks of other nodes with this tag.
  void use(MPI_Comm messages, int failure_tag) {
    messages_ = messages;
    failure_tag_ = failure_tag;
  }
  // If there is a network of offbeat's own, failures go by it, because a thread that may call no MPI may be
  // the one that fails. It has this tag for them.
  void use(const std::shared_ptr<TeamNetwork>& network, int tag) {
    if (by_network_) return;
    network_ = network;
    by_network_.emplace(*network->network, locality_, tag);
  }
  // `check` throws CommunicationError if the program's communicator can no longer be used.
  void use(void (*check)(void* state), void* state) {
    check_ = check;
    state_ = state;
  }

  void check() override {
    if (check_ != nullptr) check_(state_);
  }
  [[nodiscard]] bool gets_failure_messages() const override { return failure_tag_ >= 0 || by_network_; }
  [[nodiscard]] std::optional<BoardError> find_loss() override;
  [[nodiscard]] bool detects_dead_processes() const override {
    return check_ != nullptr && fault_tolerance_.is_enabled();
  }
  [[nodiscard]] int take_turn(FailureNotice& told) noexcept override;
  void tell_other_nodes(const FailureNotice& failure) noexcept override;
  [[nodiscard]] int error_class(int code) noexcept override;

 private:
  const Host& host_;
  const FaultTolerance& fault_tolerance_;
  HostTurn host_turn_;
  const Locality& locality_;
  MPI_Comm messages_ = MPI_COMM_NULL;
  int failure_tag_ = -1;  // negative if there are no messages
  void (*check_)(void* state) = nullptr;
  void* state_ = nullptr;
  FailureNotice notice_{};  // what is sent to other nodes
  std::shared_ptr<TeamNetwork> network_;
  std::optional<NetworkClient> by_network_;
};

}  // namespace offbeat
