// SPDX-License-Identifier: BSD-3-Clause
// MpiNetwork connects the nodes of a group by messages of the host MPI, on a private communicator.
#pragma once

#include <compare>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <utility>

#include "base/pool.hpp"
#include "groups/network.hpp"
#include "mpi/communicators/transport.hpp"
#include "mpi/host/host_turn.hpp"
#include "mpi/host/private_communicator.hpp"
#include "mpi/process/runtime.hpp"

namespace offbeat {

// A receive of the program asks the host for a message before it gives the host a buffer. So it knows the
// length, and a receive that ends without a message leaves nothing behind.
class MpiNetwork final : public Network {
 public:
  ~MpiNetwork() override;

  [[nodiscard]] NetworkAddress address() override;
  [[nodiscard]] std::size_t first_apart(std::span<const NetworkAddress> addresses) const override;
  void connect(SetUp& set_up, const Locality& locality, std::span<const NetworkAddress> addresses,
               const NetworkKey& key) override;

  void require_possible(int tag, std::size_t bytes) const override;
  void begin(Message& message) override;
  bool move(const Message& message) override;
  void forget(const Message& message) noexcept override;

  [[nodiscard]] int give_turn() noexcept override { return host_turn_->give_turn(); }
  [[nodiscard]] std::string name() const override { return "MPI"; }
  [[nodiscard]] bool needs_host() const override { return true; }
  [[nodiscard]] std::size_t longest_message(int rank) const override;
  void leave(bool has_failed) noexcept override;

 private:
  // A Source is what a receive of the program asks for. Receives with equal sources take messages in the
  // order in which they began.
  struct Source {
    int tag;
    int peer;
    auto operator<=>(const Source&) const = default;
  };
  template <class Key, class Value>
  using Map = std::map<Key, Value, std::less<>, pool::Allocator<std::pair<const Key, Value>>>;

  void send(Message& message);
  // Returns true if no earlier receive of the program could take the same message.
  [[nodiscard]] bool is_first(const Message& receive) const;
  // Lets the host receive the message that belongs to this receive. Returns false if there is none yet.
  [[nodiscard]] bool find(Message& receive);
  void stop_waiting(const Message& receive) noexcept;
  [[nodiscard]] static int tag_of(const Message& message);
  void check(int code) const;
  [[nodiscard]] const Host& host() const { return runtime().host; }

  std::optional<PrivateCommunicator> communicator_;  // null before connect()
  std::optional<HostTurn> host_turn_;                // likewise
  const Locality* locality_ = nullptr;
  int rank_ = 0;
  int highest_tag_ = 0;
  std::size_t longest_between_nodes_ = offbeat::longest_message;
  HostFunction<decltype(PMPI_Improbe)> improbe_{static_cast<void*>(nullptr)};
  HostFunction<decltype(PMPI_Imrecv)> imrecv_{static_cast<void*>(nullptr)};
  HostFunction<decltype(PMPI_Get_count)> get_count_{static_cast<void*>(nullptr)};
  std::uint64_t begun_ = 0;            // counts receives of the program
  Map<Source, MessageQueue> waiting_;  // those that have found no message; no queue is empty
};

}  // namespace offbeat
