// SPDX-License-Identifier: BSD-3-Clause
// MpiNetwork connects the nodes of a group by messages of the host MPI, on a private communicator.
#pragma once

#include <cstddef>
#include <optional>

#include "groups/group_network.hpp"
#include "mpi/communicators/transport.hpp"
#include "mpi/host/private_communicator.hpp"
#include "mpi/process/runtime.hpp"

namespace offbeat {

class MpiNetwork final : public GroupNetwork {
 public:
  ~MpiNetwork() override;

  [[nodiscard]] NetworkAddress address() const override;
  [[nodiscard]] bool connect(SetUp& set_up, const Locality& locality, std::span<const int> ranks,
                             std::uint64_t number) override;
  [[nodiscard]] std::unique_ptr<BoardTransport> transport(Board& board, int index) override;
  [[nodiscard]] std::unique_ptr<BoardClient> client() override;
  [[nodiscard]] std::unique_ptr<MessageCarrier> carrier() override;
  void forbid_reuse() noexcept override { communicator_->leak(); }

 private:
  std::optional<PrivateCommunicator> communicator_;  // null before connect()
  const Locality* locality_ = nullptr;
  std::size_t longest_between_nodes_ = longest_message;
};

}  // namespace offbeat
