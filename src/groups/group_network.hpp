// SPDX-License-Identifier: BSD-3-Clause
// A GroupNetwork connects the nodes of a group. The preload libraries have one that sends messages of the
// host MPI (mpi/communicators/mpi_network.hpp); liboffbeat.so has none.
#pragma once

#include <cstdint>
#include <memory>
#include <span>

#include "groups/board_transport.hpp"
#include "groups/message_carrier.hpp"
#include "groups/node_board.hpp"
#include "groups/set_up.hpp"

namespace offbeat {

// How a process can be reached. Plain data that ranks send to each other.
struct NetworkAddress {
  enum class State : std::int32_t {
    no_library,   // this library knows no MPI
    not_running,  // MPI is not initialised, or has ended
    one_thread,   // not every thread may call MPI
    ready
  };
  State state = State::no_library;
  std::int32_t rank = 0;   // of this process in MPI_COMM_WORLD, if it is ready
  std::int32_t ranks = 0;  // the size of MPI_COMM_WORLD, if it is ready
  std::uint64_t job = 0;   // differs between MPI jobs; 0: unknown
};

class GroupNetwork {
 public:
  GroupNetwork() = default;
  GroupNetwork(const GroupNetwork&) = delete;
  GroupNetwork& operator=(const GroupNetwork&) = delete;
  virtual ~GroupNetwork() = default;

  [[nodiscard]] virtual NetworkAddress address() const = 0;

  // Connects the ranks of a group, which have these ranks in MPI_COMM_WORLD. `number` is equal on all ranks,
  // and random. Collective. Returns false, on all ranks, if the MPI or a process has no room for it. Throws
  // CommunicationError. `locality` must outlive this object.
  [[nodiscard]] virtual bool connect(SetUp& set_up, const Locality& locality, std::span<const int> ranks,
                                     std::uint64_t number) = 0;

  // The three functions below throw std::bad_alloc.
  // Returns a transport for collective `index` of those under way. `board` is its stage.
  [[nodiscard]] virtual std::unique_ptr<BoardTransport> transport(Board& board, int index) = 0;
  // Returns what the board needs of the network.
  [[nodiscard]] virtual std::unique_ptr<BoardClient> client() = 0;
  // Returns what carries the messages of the group.
  [[nodiscard]] virtual std::unique_ptr<MessageCarrier> carrier() = 0;

  // Call this before the destructor if messages may be left over.
  virtual void forbid_reuse() noexcept = 0;
};

}  // namespace offbeat
