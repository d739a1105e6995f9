// SPDX-License-Identifier: BSD-3-Clause
// Lets the host MPI move the messages of this process.
#pragma once

#include "mpi/host/host.hpp"

namespace offbeat {

// HostTurn makes a call that only lets the host move messages. It tests a receive that no message ever
// matches, because an MPI tries everything to complete a request that is tested. A probe would be simpler,
// but two hosts move nothing for it. One is MPICH on a communicator of one rank. The other is Open MPI if
// libfabric matches the messages (its `cm` component): it asks the network and completes no operation.
class HostTurn {
 public:
  // `own` is a communicator of this rank alone, on which nothing is sent with tag 0.
  HostTurn(const Host& host, MPI_Comm own) : host_(host) {
    if (host_.Irecv(nullptr, 0, MPI_BYTE, 0, 0, own, &receive_) != MPI_SUCCESS) receive_ = MPI_REQUEST_NULL;
  }
  ~HostTurn() {
    int is_ended = 0;
    host_.Finalized(&is_ended);
    if (receive_ == MPI_REQUEST_NULL || is_ended != 0) return;
    host_.Cancel(&receive_);
    host_.Request_free(&receive_);
  }
  HostTurn(const HostTurn&) = delete;
  HostTurn& operator=(const HostTurn&) = delete;

  // Gives the host a turn. Returns an error code of the host.
  [[nodiscard]] int give_turn() noexcept {
    const Host::WithoutYield scope(host_);
    int is_over = 0;
    return host_.Test(&receive_, &is_over, MPI_STATUS_IGNORE);
  }

 private:
  const Host& host_;
  MPI_Request receive_ = MPI_REQUEST_NULL;
};

}  // namespace offbeat
