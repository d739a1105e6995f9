// SPDX-License-Identifier: BSD-3-Clause
// CommunicatorMeans is what a communicator has to carry out its calls: a board, messages, host pipelines,
// host grids and shadows. Each is created, by all ranks together, when a plan first needs it.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <memory>
#include <optional>

#include "groups/network_transport.hpp"
#include "groups/node_board.hpp"
#include "mpi/communicators/agreement.hpp"
#include "mpi/communicators/communicator_life.hpp"
#include "mpi/communicators/host_grids.hpp"
#include "mpi/communicators/shadows.hpp"
#include "mpi/communicators/team.hpp"
#include "mpi/communicators/transport.hpp"
#include "mpi/host/host_turn.hpp"
#include "mpi/host/private_communicator.hpp"
#include "selection/plan.hpp"
#include "transport/lateness.hpp"

namespace offbeat {

// SharedMeans is what the persistent requests of a communicator share. Each uses its own stage and tags.
struct SharedMeans {
  std::shared_ptr<Team::CommunicatorPlace> place;  // null before the ranks have agreed on one
  std::shared_ptr<PrivateCommunicator> messages;   // created when needed, or shared with others of the team
  int tag_base = 0;
  std::shared_ptr<TeamNetwork> network;  // of offbeat's own, for operations; null if there is none
  // True if no network may be made any more: there is one, or there will be none.
  bool is_network_settled = false;
  // True if no board may be created any more: there is one, or there will be none.
  bool is_board_settled = false;

  [[nodiscard]] bool have_board() const { return place != nullptr && place->board != nullptr; }
  [[nodiscard]] bool have_messages() const { return messages->handle() != MPI_COMM_NULL; }
  // Returns the plans that hold with these means.
  [[nodiscard]] const Plans& choose(const TeamPlans& plans) const {
    return have_board() ? plans.with_board : plans.without_board;
  }
  // Returns true if board and messages exist as far as these plans need them for these collectives.
  [[nodiscard]] bool satisfy_plans(const TeamPlans& plans, Collectives some) const {
    if (!is_board_settled && plans.with_board.need(Means::board, some)) return false;
    if (!is_network_settled && choose(plans).need(Means::network, some)) return false;
    return have_messages() || !choose(plans).need(Means::messages, some);
  }
};

class CommunicatorMeans {
 public:
  // Allocates all memory that is needed before the first message, because that may fail on one rank alone. A
  // communicator that the host serves (`is_served` is false) needs none. `life` must outlive this object.
  CommunicatorMeans(Runtime& process, const CommunicatorLife& life, const BoardSize& board_size,
                    bool is_served);
  CommunicatorMeans(const CommunicatorMeans&) = delete;
  CommunicatorMeans& operator=(const CommunicatorMeans&) = delete;

  // -- the board

  // Returns the stage that blocking calls use or, for a persistent request, the request's own stage. Null if
  // there is no board.
  [[nodiscard]] Board* board() const { return board_; }
  [[nodiscard]] bool have_board() const { return shared_.have_board(); }
  [[nodiscard]] NodeBoard& node_board() const { return *shared_.place->board; }
  // Returns a stage of the board, or null if there is no board or no such stage.
  [[nodiscard]] NodeBoard::Stage* stage(int index) const {
    return have_board() && index < node_board().stages() ? &node_board().stage(index) : nullptr;
  }
  // The index of the stage for blocking calls, and that for the next operation.
  [[nodiscard]] int index() const { return index_; }
  [[nodiscard]] int next_index() {
    if (life_.serves_persistent_request()) return index_;
    return 1 + static_cast<int>(begun_++ % (NodeBoard::stages_of_communicator - 1));
  }
  [[nodiscard]] const BoardSize& board_size() const { return board_size_; }
  [[nodiscard]] Team& team() const { return shared_.place->team(); }
  [[nodiscard]] int place() const { return shared_.place->index(); }

  // -- messages

  [[nodiscard]] bool have_messages() const { return shared_.have_messages(); }
  // Returns true if operations with this index have tags of their own for their messages.
  [[nodiscard]] static bool have_tags(int index) { return index < NodeBoard::stages_of_communicator; }
  // Returns the transport of the blocking calls, and that of the operations with this index.
  [[nodiscard]] MpiTransport& transport() { return *transport_; }
  [[nodiscard]] BoardTransport& transport_of(int index);
  // Prepares a transport for collective `index` of those under way; 0 is the blocking one.
  void prepare(BoardTransport& transport, int index);
  // Returns true if the messages of operations go by offbeat's own network.
  [[nodiscard]] bool have_network() const { return shared_.network != nullptr; }
  // Returns how this rank waits in the collective with this index: it spins, yields or sleeps.
  [[nodiscard]] Patience patience_of(int index);
  // Notes who is late in blocking calls.
  [[nodiscard]] Lateness& lateness() { return lateness_; }

  // -- host pipelines

  // Returns the communicator for pipelines of the host's own collectives, or null if there is none.
  [[nodiscard]] MPI_Comm host_pipelines() const { return host_pipelines_.handle(); }

  // -- grids of the host's own algorithms

  [[nodiscard]] const HostGrids& host_grids() const { return host_grids_; }

  // -- shadows

  // Returns the communicator on which the host runs this native(NAME), or null if there is none.
  [[nodiscard]] MPI_Comm shadow_of(const Expression* named) const { return shadows_.shadow_of(named); }

  // -- creating them

  // Takes what the ranks have agreed on. Each place has its own tags.
  void take_agreed_means(Agreement& agreed);
  // Returns true if everything exists that these plans need for these collectives.
  [[nodiscard]] bool satisfy_plans(const TeamPlans& plans, Collectives some) const;
  // Creates everything that these plans need for these collectives and that does not exist yet. Collective.
  // Returns false, on all ranks, if the host or a process has no room for it.
  [[nodiscard]] bool create_missing(MpiSetUp& set_up, const TeamPlans& plans, Collectives some);
  // Creates the communicator for messages if there is none. Collective. Returns false, on all ranks, if the
  // host or a process has no room for it.
  [[nodiscard]] bool provide_messages(MpiSetUp& set_up);
  // Returns what an operation may use if its begin must not wait.
  [[nodiscard]] Means means_of_operations() const;

  // -- sharing them, and the end

  [[nodiscard]] const SharedMeans& shared() const { return shared_; }
  // Uses what another communicator has created, with stage `index` of its board.
  void use_shared_means(const SharedMeans& shared, int index);
  // Call this before the destructor if the ranks may no longer agree on what was done here.
  void forbid_reuse();

 private:
  void provide_board(MpiSetUp& set_up);
  void provide_network(MpiSetUp& set_up);
  void prepare_mpi(MpiTransport& transport, int index);
  // Returns what gives the host a turn while an operation without a stage of the board waits for messages of
  // the network.
  [[nodiscard]] TurnCall turn_without_board();
  void make_host_turn();
  // Returns the first tag of the messages with this index in the network, in which each place has its own.
  [[nodiscard]] int network_tag(int index) const {
    return (place() * NodeBoard::stages_of_communicator + index) * most_lanes;
  }
  [[nodiscard]] bool provide_host_pipelines(MpiSetUp& set_up);
  // Returns true if grids of these plans have yet to be made. Requests that work apart need none, because the
  // host serves calls that begin something.
  [[nodiscard]] bool needs_host_grids(const TeamPlans& plans, Collectives some) const {
    const bool are_made =
        host_grids_generation_ == plans.generation() && host_grids_have_board_ == have_board();
    return !are_made && !life_.serves_persistent_request() &&
           shared_.choose(plans).need(Means::host_grid, some);
  }
  [[nodiscard]] bool provide_host_grids(MpiSetUp& set_up, const TeamPlans& plans);
  // Returns true if shadows for these plans have yet to be tried. Requests that work apart need none, because
  // the host serves only blocking calls there. A communicator that may be revoked has none.
  [[nodiscard]] bool needs_shadows(const TeamPlans& plans) const {
    return shadows_generation_ != plans.generation() && !life_.serves_persistent_request() &&
           !life_.may_be_revoked() && shared_.choose(plans).need(Means::by_name);
  }
  // Creates the shadows that are possible. A name without a shadow is plain native.
  void provide_shadows(MpiSetUp& set_up, const TeamPlans& plans);
  // Puts a new board or communicator for messages into use.
  void put_new_means_into_use();

  Runtime& process_;
  const CommunicatorLife& life_;
  const BoardSize board_size_;
  SharedMeans shared_;
  int index_ = 0;
  Board* board_ = nullptr;
  // The number of `messages` if this creates it; 0: nobody else may use it.
  std::uint64_t new_messages_number_ = 0;
  PrivateCommunicator host_pipelines_;  // nothing else uses it
  HostGrids host_grids_;
  std::uint64_t host_grids_generation_ = 0;  // of the plans whose grids exist
  bool host_grids_have_board_ = false;       // whether these plans are those with a board
  Shadows shadows_;
  std::uint64_t shadows_generation_ = 0;  // of the plans for which shadows were tried
  Lateness lateness_;
  std::unique_ptr<MpiTransport> transport_;
  // Of operations: those whose messages the host sends, and those that use the network.
  std::array<std::unique_ptr<MpiTransport>, NodeBoard::most_stages> transports_;
  std::array<std::unique_ptr<NetworkTransport>, NodeBoard::most_stages> network_transports_;
  std::optional<HostTurn> host_turn_;  // for operations without a stage of the board
  std::atomic_flag is_giving_turn_{};  // set while a thread gives the host a turn
  std::uint64_t begun_ = 0;
};

}  // namespace offbeat
