// SPDX-License-Identifier: BSD-3-Clause
// HostGrids runs grids of the host's own algorithms, such as grid(4x2, native(ring)): the host's
// MPI_Allreduce along each dimension in turn, on a communicator for each line of ranks.
//
// Source: Nuriyev et al. 2024 (SUARA), section 3. As in the paper, the algorithms are those of the MPI
// library.
#pragma once

#include <memory>
#include <vector>

#include "collectives/call.hpp"
#include "mpi/host/host_variables.hpp"
#include "mpi/host/private_communicator.hpp"
#include "mpi/types/types.hpp"

namespace offbeat {

class MpiSetUp;
struct Plans;

// The grids of one communicator.
class HostGrids {
 public:
  // Makes the communicators for the grids in these plans that have none yet. Collective. Returns false on all
  // ranks if the host or a process has no room for them. `variables` make the host run the NAME in
  // native(NAME); they are null if the plans have no NAME. Sets `names_hold` to whether every NAME takes
  // effect; a line without its NAME runs plain native.
  [[nodiscard]] bool make(MpiSetUp& set_up, HostVariables* variables, const OwnCommunicator& own,
                          const Plans& plans, bool& names_hold);

  // Runs an allreduce on a grid of these plans. `call.op` must be a reduction that `types` returned. Throws
  // CommunicationError; after that the communicator must not be used again.
  void allreduce(const Expression& grid, const Call& call, const Host& host, const Types& types) const;

  void leak() {
    for (const Grid& grid : grids_)
      for (const Line& line : grid.lines) line.communicator->leak();
  }

 private:
  // The ranks that differ from this one in one dimension only, and this rank.
  struct Line {
    std::shared_ptr<PrivateCommunicator> communicator;
    const HostAlgorithm* named = nullptr;  // what to set around each call; null: nothing
  };
  struct Grid {
    const Expression* expression;  // interned
    std::vector<Line> lines;       // one for each dimension
  };
  // Makes one line, of these ranks of the communicator.
  [[nodiscard]] bool make_line(MpiSetUp& set_up, const OwnCommunicator& own, const std::vector<int>& ranks,
                               const Expression& part, Line& line, bool& names_hold);

  HostVariables* variables_ = nullptr;
  std::vector<Grid> grids_;
};

}  // namespace offbeat
