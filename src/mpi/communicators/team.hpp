// SPDX-License-Identifier: BSD-3-Clause
// A team is the state shared by the communicators of the same processes, in the same order.
//
// A program makes many communicators of few sets of processes, mostly duplicates. A team knows where its
// processes are. It keeps their plans, the host's communicator for their messages, and the boards of
// communicators that are gone. So a further communicator of a team costs three small collectives of the host,
// and no system call.
//
// Many communicators of a team can be alive at once, each at its own *place*. A place is a number, equal on
// all ranks, with a range of tags and, once needed, a board.
#pragma once

#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <vector>

#include "groups/node_board.hpp"
#include "mpi/communicators/set_up.hpp"
#include "mpi/communicators/team_network.hpp"
#include "mpi/host/longest_message.hpp"
#include "mpi/host/private_communicator.hpp"
#include "node/membership.hpp"
#include "node/node_identity.hpp"
#include "selection/selection.hpp"

namespace offbeat {

// The plans of a team for communicators that have a board, and for those that could not get one.
struct TeamPlans {
  Plans with_board;
  Plans without_board;

  [[nodiscard]] std::uint64_t generation() const { return without_board.generation; }
};

class Team {
 public:
  // Allocates all memory that `find_nodes` needs. `world_ranks` is in the order of the communicator.
  Team(std::vector<int> world_ranks, int rank, std::uint64_t serial_number);

  // Finds out which ranks share a node, whether the host takes all memory that may come, and how long
  // messages between nodes may be. Collective; call it once.
  void find_nodes(MpiSetUp& set_up, const Settings& settings);

  [[nodiscard]] const std::vector<int>& world_ranks() const { return world_ranks_; }
  [[nodiscard]] const Locality& locality() const { return *locality_; }
  // Returns a number of bytes, equal on all ranks.
  [[nodiscard]] std::size_t longest_message_between_nodes() const { return longest_between_nodes_; }
  // Returns a number that is equal on all ranks of a team, and different for each team of these ranks.
  [[nodiscard]] std::uint64_t serial_number() const { return serial_; }

  // Returns the present plans of `selection` for this team.
  [[nodiscard]] std::shared_ptr<const TeamPlans> plans(const Selection& selection);

  // Returns the communicator for messages that the next communicator of this team may share, or null if there
  // is none.
  [[nodiscard]] std::shared_ptr<PrivateCommunicator> messages();
  void offer_messages(const std::shared_ptr<PrivateCommunicator>& messages);

  // Returns the network of this team, which is made at the first call. Collective. Returns null, on all
  // ranks, if there can be none.
  [[nodiscard]] std::shared_ptr<TeamNetwork> network(MpiSetUp& set_up, const Settings& settings);

  // A communicator's place. Its destructor gives the place back.
  class CommunicatorPlace {
   public:
    explicit CommunicatorPlace(std::shared_ptr<Team> team) : team_(std::move(team)) {}
    CommunicatorPlace(const CommunicatorPlace&) = delete;
    CommunicatorPlace& operator=(const CommunicatorPlace&) = delete;
    ~CommunicatorPlace();
    [[nodiscard]] Team& team() const { return *team_; }
    [[nodiscard]] int index() const { return index_; }
    // Keeps others from using the place again, because its ranks no longer agree on what was done there.
    void forbid_reuse() { is_reuse_forbidden_ = true; }

    std::unique_ptr<NodeBoard> board;

   private:
    friend class Team;
    std::shared_ptr<Team> team_;
    int index_ = -1;  // negative if no place was taken
    bool is_reuse_forbidden_ = false;
  };
  enum class PlaceKind : std::uint8_t { free, never_used };
  // Rank 0 calls this to decide where the next communicator goes. `size` is the board that the communicator
  // wants. Throws std::bad_alloc, as take_place() does, and then takes no place.
  [[nodiscard]] static std::shared_ptr<CommunicatorPlace> choose_place(const std::shared_ptr<Team>& team,
                                                                       PlaceKind which,
                                                                       const BoardSize& size);
  // The other ranks call this. Returns null if a communicator of this process still occupies the place.
  [[nodiscard]] static std::shared_ptr<CommunicatorPlace> take_place(const std::shared_ptr<Team>& team,
                                                                     int index, const BoardSize& size);

 private:
  // The limit on unused boards that are kept; further ones are freed.
  static constexpr int most_idle_boards = 4;

  struct PlaceState {
    bool is_taken = false;
    std::unique_ptr<NodeBoard> idle_board;  // of the last communicator there, for the next one
  };
  // Drops a board of another size, which is of no use. Call this with the mutex held.
  void prepare_place(std::size_t index, CommunicatorPlace& place, const BoardSize& size);
  void give_back(int index, std::unique_ptr<NodeBoard> board, bool is_spoilt);

  const std::vector<int> world_ranks_;
  const int rank_;
  const std::uint64_t serial_;
  std::vector<NodeIdentity> identities_;
  Membership membership_;
  std::optional<Locality> locality_;
  std::size_t longest_between_nodes_ = longest_message;
  // False if calls may come with GPU memory that offbeat can copy and the host cannot take. A rank does not
  // know what memory other ranks pass, so no trial may then give a call to the host.
  bool host_takes_all_memory_ = true;
  // True if the user wants a network of offbeat's own, and there are several nodes.
  bool has_network_ = false;

  std::mutex mutex_;  // guards the members below
  std::shared_ptr<const TeamPlans> plans_;
  std::weak_ptr<PrivateCommunicator> messages_;
  std::weak_ptr<TeamNetwork> network_;
  std::vector<PlaceState> places_;
  int idle_boards_ = 0;
};

// The teams of this process.
class Teams {
 public:
  // Returns the team of these ranks, or null if none is known.
  [[nodiscard]] std::shared_ptr<Team> find(const std::vector<int>& world_ranks);
  // Adds a team. If there is one of the same ranks, the new one replaces it. Allocates no memory if reserve()
  // was called before.
  void add(std::shared_ptr<Team> team);
  void reserve();

  // Returns a number that was never given out before.
  [[nodiscard]] std::uint64_t next_serial();

 private:
  // The limit on teams without communicators that are kept for later ones.
  static constexpr std::size_t most_idle = 3;

  std::mutex mutex_;
  std::vector<std::shared_ptr<Team>> teams_;  // the most recently used is last
  std::uint64_t serial_ = 0;
};

}  // namespace offbeat
