// SPDX-License-Identifier: BSD-3-Clause
#include "mpi/private_communicator.hpp"

namespace offbeat {

std::atomic<int> PrivateCommunicator::alive{0};

PrivateCommunicator::~PrivateCommunicator() {
  if (handle_ == MPI_COMM_NULL || host_ == nullptr) return;
  host_->Comm_free(&handle_);
  alive.fetch_sub(1, std::memory_order_relaxed);
}

// Made from the group, not by MPI_Comm_dup: that would call the attribute copy functions of the program. It
// fails on all ranks or on none, because they agree on the context id.
bool PrivateCommunicator::create(MPI_Comm model, std::uint64_t id) {
  MPI_Group group;
  if (host_->Comm_group(model, &group) != MPI_SUCCESS) return false;
  const int code = host_->Comm_create(model, group, &handle_);
  host_->Group_free(&group);
  if (code != MPI_SUCCESS) {
    handle_ = MPI_COMM_NULL;
    return false;
  }
  host_->Comm_set_errhandler(handle_, MPI_ERRORS_RETURN);
  id_ = id;
  alive.fetch_add(1, std::memory_order_relaxed);
  return true;
}

}  // namespace offbeat
