// SPDX-License-Identifier: BSD-3-Clause
// Shadows are communicators on which Open MPI runs the algorithms that native(NAME) names. Open MPI reads its
// control variables when it makes a communicator. So each name needs a communicator with the ranks of the
// program's own, made while the variables have these values.
#pragma once

#include <memory>
#include <utility>
#include <vector>

#include "mpi/host/host_variables.hpp"
#include "mpi/host/private_communicator.hpp"

namespace offbeat {

class MpiSetUp;
struct TeamPlans;

// The shadows of one communicator. One shadow serves a name of each collective, because collectives on one
// communicator never overlap.
class Shadows {
 public:
  // Makes the shadows that the plans need and that do not exist yet. Collective. Returns false on all ranks
  // if it could not make all of them; calls by the other names then are plain native ones.
  [[nodiscard]] bool make(MpiSetUp& set_up, HostVariables& variables, const OwnCommunicator& own,
                          const TeamPlans& plans);

  // Returns the communicator on which the host runs native(NAME), or null if there is none.
  [[nodiscard]] MPI_Comm shadow_of(const Expression* named) const {
    for (const Entry& each : entries_) {
      if (each.named == named) return each.communicator->handle();
    }
    return MPI_COMM_NULL;
  }

  void leak() {
    for (const Entry& each : entries_) each.communicator->leak();
  }

 private:
  struct Entry {
    const Expression* named;  // interned, so that it belongs to one collective
    std::shared_ptr<PrivateCommunicator> communicator;
  };
  std::vector<Entry> entries_;
};

}  // namespace offbeat
