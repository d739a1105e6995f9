// SPDX-License-Identifier: BSD-3-Clause
// MpiMessages carries the messages of a group of several nodes, as messages of the host MPI.
#pragma once

#include <compare>
#include <cstdint>
#include <functional>
#include <map>
#include <utility>

#include "base/pool.hpp"
#include "groups/message_carrier.hpp"
#include "mpi/host/host.hpp"

namespace offbeat {

// A receive asks the host for a message before it gives the host a buffer. So it knows the length, and a
// receive that ends without a message leaves nothing behind.
class MpiMessages final : public MessageCarrier {
 public:
  // Messages have tags from `tag_base` to `highest_tag`. The communicator must outlive this.
  MpiMessages(const Host& host, MPI_Comm communicator, int tag_base, int highest_tag)
      : host_(host),
        communicator_(communicator),
        rank_(host.rank_in(communicator)),
        tag_base_(tag_base),
        highest_tag_(highest_tag) {}

  void require_possible(int tag, std::size_t bytes) const override;
  void begin(Message& message) override;
  bool move(const Message& message) override;
  void forget(const Message& message) noexcept override;

 private:
  // A message that was handed to the host.
  struct UnderWay {
    Message* message;
    MPI_Request request = MPI_REQUEST_NULL;
  };
  // A Source is what a receive asks for. Receives with equal sources take messages in the order in which they
  // began.
  struct Source {
    int tag;
    int peer;
    auto operator<=>(const Source&) const = default;
  };
  template <class Key, class Value>
  using Map = std::map<Key, Value, std::less<>, pool::Allocator<std::pair<const Key, Value>>>;

  // Returns the receive if no earlier one could take the same message, otherwise null.
  [[nodiscard]] Message* find_if_first(const Message& receive);
  // Lets the host receive the message that belongs to this receive. Returns false if there is none yet.
  [[nodiscard]] bool find(Message& receive);
  void stop_waiting(const Message& receive) noexcept;
  void check(int code) const;

  const Host& host_;
  const MPI_Comm communicator_;
  const int rank_;
  const int tag_base_;
  const int highest_tag_;
  const HostFunction<decltype(PMPI_Improbe)> improbe_{host_.find("PMPI_Improbe")};
  const HostFunction<decltype(PMPI_Imrecv)> imrecv_{host_.find("PMPI_Imrecv")};
  const HostFunction<decltype(PMPI_Get_count)> get_count_{host_.find("PMPI_Get_count")};
  std::uint64_t begun_ = 0;  // counts messages
  Map<const Message*, UnderWay> under_way_;
  Map<Source, MessageQueue> waiting_;  // the receives that have found no message; no queue is empty
};

}  // namespace offbeat
