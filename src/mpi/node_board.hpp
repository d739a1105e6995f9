// SPDX-License-Identifier: BSD-3-Clause
// Where a communicator's ranks are, and its board: the shared memory and this rank's view of it.
#pragma once

#include <memory>
#include <vector>

#include "base/settings.hpp"
#include "mpi/host.hpp"
#include "transport/node/board.hpp"
#include "transport/node/nodes.hpp"
#include "transport/node/shared_memory.hpp"

namespace offbeat {

// Collective over `communicator`.
[[nodiscard]] Nodes find_nodes(const Host& host, MPI_Comm communicator, const Settings& settings);

class NodeBoard {
 public:
  // Collective over `communicator`, with the same outcome on all ranks: null unless the ranks of every node could all map their
  // memory.
  static std::unique_ptr<NodeBoard> create(const Host& host, MPI_Comm communicator, const Nodes& nodes,
                                           const Settings& settings, bool shares_cores);

  [[nodiscard]] Board& board() { return board_; }

 private:
  NodeBoard(const Host& host, MPI_Comm communicator, SharedMemory memory, const BoardShape& shape, const Nodes& nodes,
            const Patience& patience);

  // Lets the host move the program's other messages.
  void progress();
  // Names the ranks that have not entered the collective in which this rank waits.
  void report_stall(double waited_s, bool over);

  const Host* host_;
  MPI_Comm communicator_;
  SharedMemory memory_;
  Board board_;
  std::vector<int> world_ranks_;  // of the ranks of the board
  bool reported_ = false;
};

}  // namespace offbeat
