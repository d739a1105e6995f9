// SPDX-License-Identifier: BSD-3-Clause
// HostProgress advances operations while the program computes, or waits inside the host, for example in
// MPI_Recv or MPI_Win_fence.
//
// MPI promises progress in every call that may block. Suppose that rank A begins an allreduce and receives
// from B, and B waits for the allreduce before it sends. If A's part had to wait until A calls offbeat again,
// that would be a deadlock which the host alone does not have.
//
//  - Open MPI 4 to 6 (opal_progress_register): every wait of the host calls offbeat, which may send messages
//    there.
//  - MPICH 5 (MPIX_Async_start): every wait of the host calls offbeat while operations are under way. Calls
//    that give the host a turn are forbidden there, and tests of messages give one. So operations that send
//    messages stay with the host.
//  - Others: ProgressThread advances operations that no thread has advanced for a while. For a communicator
//    it makes no call of the host, so operations that send messages stay with the host here, too.
//
// If the user wants it (OFFBEAT_NETWORK=tcp), the messages of operations go by a network of offbeat's own,
// and ProgressThread advances them under every host.
//
// If the user has given it CPUs, ProgressThread does the work of all operations on the board of a node, under
// every host.
#pragma once

#include <vector>

#include "groups/progress_thread.hpp"
#include "mpi/host/host.hpp"

namespace offbeat {

class HostProgress {
 public:
  // `cpus` are for ProgressThread.
  HostProgress(const Host& host, const std::vector<int>& cpus);

  // Returns true if operations that send messages advance. All ranks of a job get the same answer.
  [[nodiscard]] bool moves_messages() const { return static_cast<bool>(register_callback_); }

  // Returns true if a thread does the work of operations that send no messages, from their beginning.
  [[nodiscard]] bool has_working_thread() const { return thread_.does_all_work(); }

  // Call this when an operation is under way. `in_thread`: ProgressThread advances it also if the host calls
  // offbeat, because the program may compute for long.
  void ensure(bool in_thread = false) const;
  // What else is to be called, in a thread of the program.
  struct Listener {
    void (*on_poll)() noexcept;     // whenever the host polls; only Open MPI tells of this
    void (*before_end)() noexcept;  // before the host ends
  };
  // A process has one listener.
  void report_to(const Listener& listener) const;
  // Call this before MPI_Finalize.
  void prepare_to_stop() const;
  // Call this before the host ends. ProgressThread goes on with operations that need no host, because other
  // ranks may still wait for them.
  void stop() const;

 private:
  ProgressThread thread_;
  using Callback = int (*)();
  HostFunction<int(Callback)> register_callback_;  // Open MPI only
  HostFunction<int(Callback)> unregister_callback_;
#if defined(OFFBEAT_FAMILY_MPICH)
  HostFunction<decltype(PMPIX_Async_start)> start_polling_;
#endif
};

}  // namespace offbeat
