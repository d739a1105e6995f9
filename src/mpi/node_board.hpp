// SPDX-License-Identifier: BSD-3-Clause
// A communicator's board: the shared memory and this rank's view of it.
#pragma once

#include <memory>
#include <vector>

#include "mpi/host.hpp"
#include "transport/node/board.hpp"
#include "transport/node/shared_memory.hpp"

namespace offbeat {

class NodeBoard {
 public:
  // Collective over `communicator`, with the same outcome on all ranks: null unless all its ranks are on one node and could all
  // map the memory.
  static std::unique_ptr<NodeBoard> create(const Host& host, MPI_Comm communicator, std::size_t window_bytes,
                                           bool shares_cores, double stall_s);

  [[nodiscard]] Board& board() { return board_; }

 private:
  NodeBoard(const Host& host, MPI_Comm communicator, SharedMemory memory, const BoardShape& shape, int rank,
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
