// SPDX-License-Identifier: BSD-3-Clause
// A board for communicators of the same ranks, one after the other: the shared memory and this rank's view
// of it.
#pragma once

#include <memory>
#include <span>
#include <string>
#include <vector>

#include "base/settings.hpp"
#include "mpi/host.hpp"
#include "mpi/host_turn.hpp"
#include "node/board.hpp"
#include "node/cores.hpp"
#include "node/membership.hpp"
#include "node/shared_memory.hpp"

namespace offbeat {

class SetUp;

// For who waits for messages only, and knows what the launcher says.
[[nodiscard]] Patience patience_without_board(const Settings& settings);

// The present user of a board: one communicator.
struct BoardClient {
  HostTurn* turn = nullptr;  // null: there is no communicator at present
  // Leaders tell each other of failures there, with a tag; negative: nobody does.
  MPI_Comm messages = MPI_COMM_NULL;
  int failure_tag = -1;
  // Throws CommunicationError when the program's communicator can no longer be used.
  void (*check)(void* state) = nullptr;
  void* state = nullptr;
};

class NodeBoard {
 public:
  // Collective, with the same outcome on all ranks: null unless the ranks of every node could all map their
  // memory. If not, one line says why. `world_ranks`: of all ranks of the communicator. Throws
  // CommunicationError.
  static std::unique_ptr<NodeBoard> create(SetUp& set_up, const Locality& locality,
                                           const std::vector<int>& world_ranks, const Settings& settings);

  [[nodiscard]] Board& board() { return board_; }

  // From now on for this communicator.
  void serve(const BoardClient& client) { client_ = client; }
  // Its communicator is gone, and this rank has left its last collective.
  void rest();

  // This rank cannot go on: so nobody can. Whoever waits on the board of any node gets an error of the class
  // of `code`, and one line names the rank where it began, and why; null: no line.
  void give_up(const char* why, int code) noexcept;
  // Whether a rank has, as far as this one can know. The host moves no messages for it where there is one
  // node: MPICH does not call the delete functions of a communicator to which a message has just come.
  [[nodiscard]] bool is_given_up() noexcept;
  // Lets the host move the program's other messages.
  void let_host_move() noexcept { static_cast<void>(look_for_failure()); }

 private:
  NodeBoard(const Host& host, SharedMemory memory, const BoardShape& shape, const Locality& locality,
            const std::vector<int>& world_ranks);

  // When all ranks of the node have their board. `work_space`: of as many elements as there are of them.
  void look_at_cores(const Settings& settings, std::span<CoreSet> work_space);
  // Lets the host move messages, and hears of failures on other nodes. An error code of the host.
  int look_for_failure() noexcept;
  // The same for a rank that waits. Throws CommunicationError if a rank has given up.
  void progress();
  [[nodiscard]] int world_rank() const { return world_ranks_[static_cast<std::size_t>(board_.rank)]; }
  [[nodiscard]] std::string call() const;
  // Names the ranks that have not entered the collective in which this rank waits.
  void report_stall(double waited_s, bool over);

  const Host* host_;
  BoardClient client_;
  SharedMemory memory_;
  Board board_;
  const CoreSet cores_ = CoreSet::of_this_process();  // as the others are told
  std::vector<int> world_ranks_;                      // of the ranks of the board
  std::string host_name_;
  std::vector<int> other_leaders_;  // on the lowest rank of the node, those of the other nodes
  bool has_other_nodes_;
  bool reported_ = false;
  std::uint64_t notice_ = 0;  // of a failure, to other nodes: what stands in Board::broken
  bool was_told_ = false;
};

}  // namespace offbeat
