// SPDX-License-Identifier: BSD-3-Clause
// Support for user-level failure mitigation (ULFM), with which a program continues after a process has died.
// Open MPI 5 supports it in jobs that are started with `--with-ft ulfm`.
//
// A rank that waits for another one in shared memory must ask the host whether that rank is still alive, and
// whether the program has revoked its communicator.
#pragma once

#include "mpi/host/host.hpp"

namespace offbeat {

class FaultTolerance {
 public:
  // Reads from the host whether ULFM is on. MPI must be initialised.
  explicit FaultTolerance(const Host& host) : host_(&host) {
#if defined(OFFBEAT_FAMILY_OPENMPI)
    const void* enabled = host.find("ompi_ftmpi_enabled");
    is_enabled_ = enabled != nullptr && *static_cast<const bool*>(enabled) && is_revoked_ && get_failed_;
#endif
  }

  [[nodiscard]] bool is_enabled() const { return is_enabled_; }
  // Returns true if the program can revoke a communicator. That is possible even if ULFM is off.
  [[nodiscard]] bool can_revoke() const { return static_cast<bool>(is_revoked_); }

  // Call is_revoked() only if can_revoke(), and has_dead_process() only if is_enabled(). Both take some ten
  // nanoseconds, and report nothing new until the host makes progress.
  [[nodiscard]] bool is_revoked(MPI_Comm communicator) const {
    int flag = 0;
    return is_revoked_(communicator, &flag) == MPI_SUCCESS && flag != 0;
  }
  [[nodiscard]] bool has_dead_process(MPI_Comm communicator) const {
    return first_dead_process(communicator) != MPI_UNDEFINED;
  }
  // Returns the rank in MPI_COMM_WORLD of a process that is known to be dead, or MPI_UNDEFINED if there is
  // none.
  [[nodiscard]] int first_dead_process(MPI_Comm communicator) const {
    MPI_Group failed;
    if (!get_failed_ || communicator == MPI_COMM_NULL || get_failed_(communicator, &failed) != MPI_SUCCESS)
      return MPI_UNDEFINED;
    int count = 0;
    int in_world = MPI_UNDEFINED;
    host_->Group_size(failed, &count);
    if (count > 0) {
      const int first = 0;
      MPI_Group world;
      host_->Comm_group(MPI_COMM_WORLD, &world);
      host_->Group_translate_ranks(failed, 1, &first, world, &in_world);
      host_->Group_free(&world);
    }
    host_->Group_free(&failed);
    return in_world;
  }

#if defined(OFFBEAT_FAMILY_OPENMPI)
  static constexpr int revoked = MPI_ERR_REVOKED;
  static constexpr int process_failed = MPI_ERR_PROC_FAILED;
#else
  static constexpr int revoked = -1;  // these hosts have no such error
  static constexpr int process_failed = -1;
#endif

 private:
  const Host* host_;
  bool is_enabled_ = false;
  HostFunction<int(MPI_Comm, int*)> is_revoked_{host_->find("PMPIX_Comm_is_revoked")};
  HostFunction<int(MPI_Comm, MPI_Group*)> get_failed_{host_->find("PMPIX_Comm_get_failed")};
};

}  // namespace offbeat
