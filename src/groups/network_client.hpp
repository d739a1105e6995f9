// SPDX-License-Identifier: BSD-3-Clause
// NetworkClient is a network as the board of a group sees it: it moves messages while ranks wait, and carries
// failures to other nodes.
#pragma once

#include <memory>

#include "groups/network.hpp"
#include "groups/node_board.hpp"

namespace offbeat {

class NetworkClient final : public BoardClient {
 public:
  // The network is connected. Both must outlive this. Failures come and go with this tag.
  NetworkClient(Network& network, const Locality& locality, int tag = 0);
  ~NetworkClient() override;

  void check() override {}
  [[nodiscard]] bool gets_failure_messages() const override { return true; }
  [[nodiscard]] bool detects_dead_processes() const override { return false; }
  [[nodiscard]] bool is_host() const override { return network_.needs_host(); }
  [[nodiscard]] std::optional<BoardError> find_loss() override { return network_.find_loss(); }
  [[nodiscard]] std::vector<int> awaited_ranks() override { return network_.awaited_ranks(); }
  [[nodiscard]] int take_turn(FailureNotice& told) noexcept override;
  void tell_other_nodes(const FailureNotice& failure) noexcept override;
  [[nodiscard]] int error_class(int code) noexcept override { return code; }

 private:
  Network& network_;
  const Locality& locality_;
  const int tag_;
  FailureNotice heard_{};
  bool has_heard_ = false;              // and the board knows it
  Message listener_{};                  // receives `heard_`
  FailureNotice told_{};                // what the notices to other ranks say
  std::unique_ptr<Message[]> notices_;  // one for each rank
};

}  // namespace offbeat
