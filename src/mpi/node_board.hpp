// SPDX-License-Identifier: BSD-3-Clause
// Where a communicator's ranks are, and its board: the shared memory and this rank's view of it.
#pragma once

#include <memory>
#include <span>
#include <string>
#include <vector>

#include "base/settings.hpp"
#include "mpi/host.hpp"
#include "transport/node/board.hpp"
#include "transport/node/cores.hpp"
#include "transport/node/nodes.hpp"
#include "transport/node/shared_memory.hpp"

namespace offbeat {

// Collective over `communicator`. `lists` are of its size; this takes no memory.
void find_nodes(const Host& host, MPI_Comm communicator, const Settings& settings, NodeLists& lists);

// For who waits for messages only, and knows what the launcher says.
[[nodiscard]] Patience patience_without_board(const Settings& settings);

class NodeBoard {
 public:
  // Collective over `communicator`, with the same outcome on all ranks: null unless all ranks are `ready` for
  // it and the ranks of every node could all map their memory. If not, one line says why.
  static std::unique_ptr<NodeBoard> create(const Host& host, MPI_Comm communicator, const Nodes& nodes,
                                           const Settings& settings, bool ready);

  [[nodiscard]] Board& board() { return board_; }

  // This rank cannot go on, because of `why` or because another one could not: so nobody can. Whoever waits
  // on the board of any node gets an error, and one line names the rank where it began.
  void give_up(const char* why) noexcept;
  // Whether a rank has, as far as this one can know. Lets the host move the program's other messages.
  [[nodiscard]] bool is_given_up();

 private:
  NodeBoard(const Host& host, MPI_Comm communicator, SharedMemory memory, const BoardShape& shape,
            const Nodes& nodes);

  // When all ranks of the node have their board. `work_space`: of as many elements as there are of them.
  void look_at_cores(const Settings& settings, std::span<CoreSet> work_space);
  // The same for who waits. Throws CommunicationError if a rank has given up.
  void progress();
  [[nodiscard]] int world_rank() const { return world_ranks_[static_cast<std::size_t>(board_.rank)]; }
  [[nodiscard]] std::string call() const;
  // Names the ranks that have not entered the collective in which this rank waits.
  void report_stall(double waited_s, bool over);

  const Host* host_;
  MPI_Comm communicator_;
  SharedMemory memory_;
  Board board_;
  const CoreSet cores_ = CoreSet::of_this_process();  // as the others are told
  std::vector<int> world_ranks_;  // of the ranks of the board
  std::string host_name_;
  std::vector<int> other_leaders_;  // on a leader, of nodes
  bool has_other_nodes_;
  bool reported_ = false;
  int notice_ = 0;  // of a failure, to other nodes: the rank in MPI_COMM_WORLD
  bool was_told_ = false;
};

}  // namespace offbeat
