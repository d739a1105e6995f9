// SPDX-License-Identifier: BSD-3-Clause
// NetworkTransport carries out tasks of a group that spans several nodes: on the board, and by messages of a
// Network.
#pragma once

#include <coroutine>
#include <cstddef>
#include <memory>
#include <vector>

#include "groups/board_transport.hpp"
#include "groups/network.hpp"

namespace offbeat {

class NetworkTransport final : public BoardTransport {
 public:
  // Messages have `first_tag` and the tags behind it, one for each lane. The network and `where` must outlive
  // this.
  NetworkTransport(Network& network, const Locality& where, int first_tag);

  using BoardTransport::start;
  [[nodiscard]] bool start(Transfer& transfer) override;
  [[nodiscard]] bool needs_host() const override { return network_.needs_host(); }
  // Makes each look in vain call `turn`, unless there is a board, which knows more.
  void call_turn_in_waits(const TurnCall& turn) { patience_.turn = turn; }

 private:
  // One message under way.
  struct Leg {
    Message message;
    Transfer* transfer = nullptr;
  };

  [[nodiscard]] bool has_messages() const override { return !under_way_.empty(); }
  bool test_messages() override;
  bool abandon_messages() noexcept override;
  // Begins the next messages of one direction of a transfer.
  void post(Transfer& transfer, bool is_send);
  // Counts a message that is over. Returns true if the transfer is, too.
  [[nodiscard]] bool end(Leg& leg);
  [[nodiscard]] std::unique_ptr<Leg> new_leg();
  [[nodiscard]] int tag(const Transfer& transfer) const;

  Network& network_;
  const int first_tag_;
  // The message of legs_[k] is under_way_[k]. The other vectors are work space. All keep their capacity.
  std::vector<std::unique_ptr<Leg>> legs_;
  std::vector<Message*> under_way_;
  std::vector<std::unique_ptr<Leg>> unused_;
  std::vector<std::unique_ptr<Leg>> over_;
  std::vector<std::coroutine_handle<>> resumable_;
};

}  // namespace offbeat
