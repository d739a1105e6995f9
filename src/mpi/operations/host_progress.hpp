// SPDX-License-Identifier: BSD-3-Clause
// How operations advance while the program waits inside the host, in MPI_Recv or MPI_Win_fence, say, or
// computes.
//
// MPI promises progress in every call that may block: rank A begins an allreduce and receives from B; B waits
// for the allreduce before it sends. If A's part had to wait until A calls offbeat again, that would be a
// deadlock which the host alone does not have.
//
//   Open MPI 4 and 5    opal_progress_register: every wait of the host calls us. Messages may be sent there.
//   MPICH 5             MPIX_Async_start: the same, but only while operations are under way. Nothing may be
//                       called there that gives the host a turn, and tests of messages do. So operations that
//                       send messages stay with the host.
//   others              ProgressThread looks after operations that nobody has looked after for a while. It
//                       makes no call of the host, so operations that send messages stay with the host here,
//                       too.
//
// Where the user has given it CPUs, ProgressThread does the work of all operations on the board of a node,
// under every host.
#pragma once

#include <vector>

#include "mpi/host/host.hpp"
#include "mpi/operations/progress_thread.hpp"

namespace offbeat {

class HostProgress {
 public:
  // `cpus`: for ProgressThread.
  HostProgress(const Host& host, const std::vector<int>& cpus);

  // Whether operations that send messages advance. The same on all ranks of a job.
  [[nodiscard]] bool moves_messages() const { return static_cast<bool>(register_); }

  // Whether a thread does the work of operations that send no messages, from the beginning.
  [[nodiscard]] bool has_working_thread() const { return thread_.does_all_work(); }

  // Call when an operation is under way.
  void ensure() const;
  // The host calls `function` whenever it polls, in a thread of the program. Only Open MPI does so.
  void tell_of_polls(void (*function)() noexcept) const;
  // Call before the host ends.
  void stop() const;

 private:
  ProgressThread thread_;
  using Callback = int (*)();
  HostFunction<int(Callback)> register_;  // of Open MPI
  HostFunction<int(Callback)> unregister_;
#if defined(OFFBEAT_FAMILY_MPICH)
  HostFunction<decltype(PMPIX_Async_start)> start_polling_;
#endif
};

}  // namespace offbeat
