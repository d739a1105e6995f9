// SPDX-License-Identifier: BSD-3-Clause
// A communicator's board: the shared memory and this rank's view of it.
#pragma once

#include <memory>

#include "mpi/host.hpp"
#include "transport/node/board.hpp"
#include "transport/node/shared_memory.hpp"

namespace offbeat {

class NodeBoard {
 public:
  // Collective over `communicator`, with the same outcome on all ranks: null unless all its ranks are on one node and could all
  // map the memory.
  static std::unique_ptr<NodeBoard> create(const Host& host, MPI_Comm communicator, std::size_t window_bytes,
                                           bool shares_cores);

  [[nodiscard]] Board& board() { return board_; }

 private:
  NodeBoard(const Host& host, MPI_Comm communicator, SharedMemory memory, const BoardShape& shape, int rank,
            bool shares_cores);

  const Host* host_;
  MPI_Comm communicator_;
  SharedMemory memory_;
  Board board_;
};

}  // namespace offbeat
