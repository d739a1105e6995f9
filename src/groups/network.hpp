// SPDX-License-Identifier: BSD-3-Clause
// A Network carries messages between the nodes of a group. MpiNetwork (mpi/communicators/mpi_network.hpp)
// sends messages of the host MPI, and an OwnNetwork needs no MPI. A network begins messages, moves those
// under way, and says where it can be reached. NetworkTransport sends the messages of collectives through any
// network, and NetworkClient what one node tells another.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.hpp"
#include "groups/message_carrier.hpp"
#include "groups/set_up.hpp"
#include "node/membership.hpp"
#include "node/patience.hpp"

namespace offbeat {

// Where a network finds a rank. Plain data that ranks send to each other; only the network understands
// `data`.
struct NetworkAddress {
  std::array<char, 112> why_not{};  // why the network cannot reach the rank; empty: it can
  std::array<std::byte, 96> data{};

  [[nodiscard]] static NetworkAddress none(std::string_view why) {
    NetworkAddress made;
    why.copy(made.why_not.data(), made.why_not.size() - 1);
    return made;
  }
  [[nodiscard]] bool is_usable() const { return why_not.front() == '\0'; }
};

// A random number that all ranks of a group know, and nobody else.
struct NetworkKey {
  std::array<std::byte, 16> bytes{};
};

// A MessageCarrier whose functions any thread may call at any time for messages of collectives and of
// failures. Messages of the program need the lock of OperationsUnderWay, as with every carrier.
class Network : public MessageCarrier {
 public:
  // Returns where this rank can be reached, or why not.
  [[nodiscard]] virtual NetworkAddress address() = 0;
  // Returns the first rank that this network does not connect with rank 0, or the number of ranks. All
  // addresses are usable. It gives the same result on all ranks.
  [[nodiscard]] virtual std::size_t first_apart(std::span<const NetworkAddress> addresses) const {
    return addresses.size();
  }
  // Gets ready to reach these ranks. Collective. Throws CommunicationError, on all ranks. `locality` must
  // outlive this object.
  virtual void connect(SetUp& set_up, const Locality& locality, std::span<const NetworkAddress> addresses,
                       const NetworkKey& key) = 0;

  // Moves all of these messages as far as possible without waiting. Returns true if one has moved. Throws
  // CommunicationError.
  virtual bool move_all(std::span<Message* const> messages) {
    bool has_moved = false;
    for (const Message* each : messages) has_moved = move(*each) || has_moved;
    return has_moved;
  }
  // Lets the library behind the network move other messages. Returns its error code, 0 for success.
  [[nodiscard]] virtual int give_turn() noexcept { return 0; }
  // Returns how a thread sleeps until messages come in. Its call is null if the network does not know.
  [[nodiscard]] virtual SleepCall sleep() { return {}; }
  // Returns why the group cannot go on if the network has lost a rank, and this rank has waited in vain for a
  // while.
  [[nodiscard]] virtual std::optional<BoardError> find_loss() { return std::nullopt; }

  // Returns the ranks from which messages of collectives are awaited, if the network knows.
  [[nodiscard]] virtual std::vector<int> awaited_ranks() { return {}; }

  // Returns what people call the network, and where this rank is in it.
  [[nodiscard]] virtual std::string name() const = 0;
  // True if the network sends messages of the host MPI, and so may be used only while that runs.
  [[nodiscard]] virtual bool needs_host() const = 0;
  // Returns true if memory of a message may be read and written after forget().
  [[nodiscard]] virtual bool may_touch_forgotten() const { return needs_host(); }
  // Returns the longest message of a collective from or to a rank, in bytes.
  [[nodiscard]] virtual std::size_t longest_message(int /*rank*/) const {
    return std::numeric_limits<std::size_t>::max();
  }
  // Says goodbye to the other ranks; waits for none. Nothing is begun any more. After a failure, messages may
  // be left over.
  virtual void leave(bool has_failed) noexcept = 0;
};

}  // namespace offbeat
