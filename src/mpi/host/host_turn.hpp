// SPDX-License-Identifier: BSD-3-Clause
// A call that lets the host MPI move the messages of this process, and does nothing else.
#pragma once

#include "mpi/host/host.hpp"

namespace offbeat {

// Tests a receive that no message ever matches: an MPI tries everything to complete a tested request. A probe
// would be simpler, but two hosts move nothing for it: MPICH on a communicator of one rank, and Open MPI
// where libfabric matches the messages (its `cm` component), which asks the network and completes no
// operation.
class HostTurn {
 public:
  // `own`: a communicator of this rank alone, on which nobody sends.
  HostTurn(const Host& host, MPI_Comm own) : host_(host) {
    if (host_.Irecv(nullptr, 0, MPI_BYTE, 0, 0, own, &receive_) != MPI_SUCCESS) receive_ = MPI_REQUEST_NULL;
  }
  ~HostTurn() {
    if (receive_ == MPI_REQUEST_NULL) return;
    host_.Cancel(&receive_);
    host_.Request_free(&receive_);
  }
  HostTurn(const HostTurn&) = delete;
  HostTurn& operator=(const HostTurn&) = delete;

  // Returns an error code of the host.
  [[nodiscard]] int take() noexcept {
    const Host::WithoutYield scope(host_);
    int is_over = 0;
    return host_.Test(&receive_, &is_over, MPI_STATUS_IGNORE);
  }

 private:
  const Host& host_;
  MPI_Request receive_ = MPI_REQUEST_NULL;
};

}  // namespace offbeat
