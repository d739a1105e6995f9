// SPDX-License-Identifier: BSD-3-Clause
// PrivateCommunicator is a communicator of the host that carries offbeat's messages.
#pragma once

#include <atomic>
#include <cstdint>
#include <span>

#include "mpi/host/host.hpp"
#include "mpi/host/own_communicator.hpp"

namespace offbeat {

// Communicators of the program that have the same ranks share one. The last of them frees it.
class PrivateCommunicator {
 public:
  // The limit on private communicators. Some MPIs have room for only hundreds of communicators, others for
  // thousands; most of them are for the program.
  static constexpr int max_count = 128;

  explicit PrivateCommunicator(const Host& host) : host_(&host) {}
  PrivateCommunicator(const PrivateCommunicator&) = delete;
  PrivateCommunicator& operator=(const PrivateCommunicator&) = delete;
  ~PrivateCommunicator();

  // Creates the communicator. All ranks of `model` must call this, after all have found that it
  // may_be_created(). Returns false if the host refused.
  [[nodiscard]] bool create(MPI_Comm model, std::uint64_t id);
  // Creates the communicator of `ranks` of `model`, which include this one. All ranks of `model` must call
  // this. Otherwise like create().
  [[nodiscard]] bool create_part(MPI_Comm model, std::span<const int> ranks);
  // Creates a communicator of these ranks of MPI_COMM_WORLD. Collective over them, like create(). Calls with
  // other ranks at the same time need another tag.
  [[nodiscard]] bool create_from_world(std::span<const int> ranks, int tag);
  // Creates a communicator like `model`, which is a private one, too. Collective, like create().
  [[nodiscard]] bool duplicate(MPI_Comm model, MPI_Info info);
  // Call this after a failure. Messages may be left over, for which MPICH would end the job in MPI_Comm_free.
  void leak() { host_ = nullptr; }

  // Returns true if this process has room for one more communicator. MPICH crashes if it has no memory to
  // create one. If MPICH has no context id left, it calls the error handler of the program's communicator,
  // which may end the job. So this first tries to create one from `own`, whose errors return.
  [[nodiscard]] static bool may_be_created(const Host& host, const OwnCommunicator& own);

  [[nodiscard]] MPI_Comm handle() const { return handle_; }
  // A number that is equal on all ranks; 0 if the communicator does not exist yet.
  [[nodiscard]] std::uint64_t id() const { return id_; }

 private:
  // Takes what the host has made. Returns false if that is nothing.
  bool adopt(int code, std::uint64_t id);

  static std::atomic<int> live_count;
  const Host* host_;
  MPI_Comm handle_ = MPI_COMM_NULL;
  std::uint64_t id_ = 0;
};

}  // namespace offbeat
