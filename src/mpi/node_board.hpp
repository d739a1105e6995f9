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

// Collective over `communicator`.
[[nodiscard]] NodeLists find_nodes(const Host& host, MPI_Comm communicator, const Settings& settings);

// For who waits for messages only, and knows what the launcher says.
[[nodiscard]] Patience patience_without_board(const Settings& settings);

class NodeBoard {
 public:
  // Collective over `communicator`, with the same outcome on all ranks: null unless the ranks of every node
  // could all map their memory. If not, one line says why.
  static std::unique_ptr<NodeBoard> create(const Host& host, MPI_Comm communicator, const Nodes& nodes,
                                           const Settings& settings);

  [[nodiscard]] Board& board() { return board_; }

 private:
  NodeBoard(const Host& host, MPI_Comm communicator, SharedMemory memory, const BoardShape& shape,
            const Nodes& nodes);

  // When all ranks of the node have their board. `work_space`: of as many elements as there are of them.
  void choose_patience(const Settings& settings, std::span<CoreSet> work_space);
  // Lets the host move the program's other messages.
  void progress();
  // Names the ranks that have not entered the collective in which this rank waits.
  void report_stall(double waited_s, bool over);

  const Host* host_;
  MPI_Comm communicator_;
  SharedMemory memory_;
  Board board_;
  std::vector<int> world_ranks_;  // of the ranks of the board
  std::string host_name_;
  bool has_other_nodes_;
  bool reported_ = false;
};

}  // namespace offbeat
