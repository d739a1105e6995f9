// SPDX-License-Identifier: BSD-3-Clause
// Makes processes that the program spawns run under the preload, as the program itself does.
//
// MPICH and Open MPI 4 give them the environment that mpirun was told to set for the ranks. Open MPI 5 does
// not (github.com/open-mpi/ompi/issues/13399), so there the info of the call says what to set.
#pragma once

#include <vector>

#include "mpi/host/host.hpp"

namespace offbeat {

class SpawnInfos {
 public:
  // `infos` has the `count` infos of the call. As in MPI, they are read on rank `root` only.
  SpawnInfos(const Host& host, int count, const MPI_Info* infos, int root, MPI_Comm communicator);
  ~SpawnInfos() { release(); }
  SpawnInfos(const SpawnInfos&) = delete;
  SpawnInfos& operator=(const SpawnInfos&) = delete;

  // Returns the array to pass to the host.
  [[nodiscard]] const MPI_Info* data() const {
    return changed_infos_.empty() ? infos_ : changed_infos_.data();
  }

 private:
  void release();

  const Host& host_;
  const MPI_Info* infos_;
  std::vector<MPI_Info> changed_infos_;
};

}  // namespace offbeat
