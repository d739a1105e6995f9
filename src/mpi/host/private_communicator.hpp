// SPDX-License-Identifier: BSD-3-Clause
// A communicator of the host for offbeat's messages.
#pragma once

#include <atomic>
#include <cstdint>

#include "mpi/host/host.hpp"

namespace offbeat {

// Shared by communicators of the program that have the same ranks; the last of them frees it.
class PrivateCommunicator {
 public:
  // Some MPIs have room for only hundreds of communicators, others for thousands; most are the program's.
  static constexpr int most = 128;

  explicit PrivateCommunicator(const Host& host) : host_(&host) {}
  PrivateCommunicator(const PrivateCommunicator&) = delete;
  PrivateCommunicator& operator=(const PrivateCommunicator&) = delete;
  ~PrivateCommunicator();

  // Collective over `model`. Call after all ranks have found that it may_be_created. Returns false if the
  // host refused it.
  [[nodiscard]] bool create(MPI_Comm model, std::uint64_t id);
  // Call after a failure: messages are left over, for which MPICH would end the job in MPI_Comm_free.
  void keep_for_ever() { host_ = nullptr; }

  // Whether this process has room for one more communicator. MPICH crashes if it has no memory to create one.
  // If MPICH has no number left for one, it calls the error handler of the program's communicator, which may
  // end the job. `own`, a communicator of this rank alone whose errors return, shows whether a number is
  // left.
  [[nodiscard]] static bool may_be_created(const Host& host, MPI_Comm own);

  [[nodiscard]] MPI_Comm handle() const { return handle_; }
  // Equal on all ranks; 0: there is none yet.
  [[nodiscard]] std::uint64_t id() const { return id_; }

 private:
  static std::atomic<int> alive;
  const Host* host_;
  MPI_Comm handle_ = MPI_COMM_NULL;
  std::uint64_t id_ = 0;
};

}  // namespace offbeat
