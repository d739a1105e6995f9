// SPDX-License-Identifier: BSD-3-Clause
// FabricNetwork connects the nodes of a group by libfabric, which is loaded at run time.
//
// Each message is one tagged message of libfabric, whose provider knows how long ones travel. Its tag also
// says which rank has sent it, because a receive from any rank has to learn that. Notices of failures go by
// TCP, which also tells of the end of a rank: most providers do not.
#pragma once

#include <rdma/fabric.h>

#include <cstddef>
#include <cstdint>
#include <limits>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/spin_lock.hpp"
#include "groups/fabric_lingering.hpp"
#include "groups/fabric_provider.hpp"
#include "groups/fork_list.hpp"
#include "groups/own_network.hpp"
#include "groups/tcp_network.hpp"

namespace offbeat {

class FabricNetwork final : public OwnNetwork {
 public:
  explicit FabricNetwork(const Settings& settings) : settings_(settings), tcp_(settings) { all_.add(*this); }
  ~FabricNetwork() override { all_.remove(*this); }

  [[nodiscard]] NetworkAddress address() override;
  void connect(SetUp& set_up, const Locality& locality, std::span<const NetworkAddress> addresses,
               const NetworkKey& key) override;

  void require_possible(int tag, std::size_t bytes) const override;
  void begin(Message& message) override;
  bool move(const Message& message) override;
  bool move_all(std::span<Message* const> messages) override;
  void forget(const Message& message) noexcept override;
  [[nodiscard]] bool may_touch_forgotten() const override { return is_shared(); }

  [[nodiscard]] SleepCall sleep() override;
  [[nodiscard]] std::optional<BoardError> find_loss() override { return tcp_.find_loss(); }
  [[nodiscard]] std::vector<int> awaited_ranks() override;
  [[nodiscard]] std::string name() const override;
  [[nodiscard]] std::size_t longest_message(int /*rank*/) const override { return longest_message_; }
  void leave(bool has_failed) noexcept override;
  void share(std::span<const int> numbers, std::string_view space) override;

  using List = ForkList<FabricNetwork, LingeringEndpoints>;
  static List& all() { return all_; }

 private:
  friend List;
  struct Peer {
    fi_addr_t address = FI_ADDR_UNSPEC;
    bool is_watched = false;
    MessageQueue unsent;  // which the provider does not take yet
    int error = 0;        // of libfabric, which cannot reach the rank; 0: there was none
    std::int64_t lost_ns = 0;
    std::int64_t ended_ns =
        0;  // when TCP told of its end, or 0; later if libfabric has moved something since
  };

  // -- the end of the process. libfabric's destructors run while other threads may still look for messages.
  static void arrange_exit();
  void stop();
  // A child of fork() has no part in its parent's endpoint.
  void leave_to_parent() { static_cast<void>(endpoint_.release()); }

  // -- opening
  // Returns the error code of libfabric.
  [[nodiscard]] int open();
  void nap(std::int64_t at_most_ns);

  // -- messages. All functions below need the lock.
  // Gives a message to the provider. Returns false if it takes none at the moment.
  [[nodiscard]] bool post(Message& message);
  void post_or_queue(Message& message);
  [[nodiscard]] MessageQueue& queue_of(const Message& message);
  void post_queued(MessageQueue& queue);
  [[nodiscard]] FabricOperation& unused_operation();
  // Handles what has been completed. Returns true if there was anything.
  bool poll();
  void end(FabricOperation& operation, std::uint64_t tag, std::size_t bytes);
  // Ends the operation that the provider says has failed.
  void end_in_error();
  void lose(Peer& other, int error);
  [[noreturn]] void fail(int error) const;
  // Throws BoardError if one of the messages will never be over.
  void require_hope(std::span<Message* const> messages);
  void look_at_tcp(const Message& awaited);
  [[nodiscard]] Peer& peer(const Message& message) { return peers_[static_cast<std::size_t>(message.peer)]; }

  static List all_;
  const Settings& settings_;
  TcpNetwork tcp_;
  FabricLibrary library_;
  FabricInfo info_;
  std::unique_ptr<FabricEndpoint> endpoint_;  // null before address(), after leave() and after a failure
  std::int64_t closed_ns_ = 0;                // when the endpoint was closed after a failure
  int descriptor_ = -1;  // readable if there are completions; negative: the provider has none
  SpinLock lock_;
  int rank_ = 0;
  std::size_t longest_message_ = std::numeric_limits<std::size_t>::max();  // that all ranks take
  std::vector<Peer> peers_;
  std::vector<FabricOperation*> unused_;
  MessageQueue unposted_receives_;
  bool has_queued_ = false;  // a queue may have a message
  std::uint64_t looks_in_vain_ = 0;
  FabricNetwork* next_in_list_ = nullptr;
};

}  // namespace offbeat
