// SPDX-License-Identifier: BSD-3-Clause
#include "mpi/host/private_communicator.hpp"

#include <sys/mman.h>

#include <cstddef>
#include <mutex>

#include "mpi/host/return_errors.hpp"

namespace offbeat {

std::atomic<int> PrivateCommunicator::live_count{0};

namespace {

bool can_create_another(const Host& host, const OwnCommunicator& own) {
  if (host.handlers_can_be_put_back()) return true;
  if (own.handle == MPI_COMM_SELF) return false;  // there was no id left for `own` itself
  const std::lock_guard lock(own.of_collectives);
  MPI_Group group;
  MPI_Comm another = MPI_COMM_NULL;
  host.Comm_group(own.handle, &group);
  const int code = host.Comm_create(own.handle, group, &another);
  host.Group_free(&group);
  if (code == MPI_SUCCESS) host.Comm_free(&another);
  return code == MPI_SUCCESS;
}

}  // namespace

PrivateCommunicator::~PrivateCommunicator() {
  if (handle_ == MPI_COMM_NULL || host_ == nullptr) return;
  host_->Comm_free(&handle_);
  live_count.fetch_sub(1, std::memory_order_relaxed);
}

bool PrivateCommunicator::may_be_created(const Host& host, const OwnCommunicator& own) {
  if (live_count.load(std::memory_order_relaxed) >= max_count) return false;
  constexpr std::size_t for_the_host = std::size_t{6} << 20;
  void* room = mmap(nullptr, for_the_host, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (room == MAP_FAILED) return false;
  munmap(room, for_the_host);
  return can_create_another(host, own);
}

// The communicator is created from the group, because MPI_Comm_dup would call the program's attribute copy
// functions. Creation fails on all ranks or on none, because they agree on the context id.
bool PrivateCommunicator::create(MPI_Comm model, std::uint64_t id) {
  MPI_Group group;
  if (host_->Comm_group(model, &group) != MPI_SUCCESS) return false;
  const int code = host_->Comm_create(model, group, &handle_);
  host_->Group_free(&group);
  return adopt(code, id);
}

bool PrivateCommunicator::create_part(MPI_Comm model, std::span<const int> ranks) {
  const HostFunction<decltype(PMPI_Group_incl)> include(host_->find("PMPI_Group_incl"));
  MPI_Group all;
  MPI_Group part = MPI_GROUP_EMPTY;
  if (host_->Comm_group(model, &all) != MPI_SUCCESS) return false;
  if (include) include(all, static_cast<int>(ranks.size()), ranks.data(), &part);
  host_->Group_free(&all);
  const int code = host_->Comm_create(model, part, &handle_);
  if (part != MPI_GROUP_EMPTY) host_->Group_free(&part);
  return adopt(handle_ == MPI_COMM_NULL ? MPI_ERR_GROUP : code, 0);
}

bool PrivateCommunicator::create_from_world(std::span<const int> ranks, int tag) {
  const HostFunction<decltype(PMPI_Group_incl)> include(host_->find("PMPI_Group_incl"));
  const HostFunction<decltype(PMPI_Comm_create_group)> create_group(host_->find("PMPI_Comm_create_group"));
  if (!include || !create_group) return false;
  const ReturnErrors scope(*host_, MPI_COMM_WORLD);
  MPI_Group world;
  MPI_Group group;
  if (host_->Comm_group(MPI_COMM_WORLD, &world) != MPI_SUCCESS) return false;
  int code = include(world, static_cast<int>(ranks.size()), ranks.data(), &group);
  host_->Group_free(&world);
  if (code != MPI_SUCCESS) return false;
  code = create_group(MPI_COMM_WORLD, group, tag, &handle_);
  host_->Group_free(&group);
  return adopt(code, 0);
}

bool PrivateCommunicator::duplicate(MPI_Comm model, MPI_Info info) {
  const HostFunction<decltype(PMPI_Comm_dup_with_info)> duplicate(host_->find("PMPI_Comm_dup_with_info"));
  return duplicate && adopt(duplicate(model, info, &handle_), 0);
}

bool PrivateCommunicator::adopt(int code, std::uint64_t id) {
  if (code != MPI_SUCCESS) {
    handle_ = MPI_COMM_NULL;
    return false;
  }
  host_->Comm_set_errhandler(handle_, MPI_ERRORS_RETURN);
  id_ = id;
  live_count.fetch_add(1, std::memory_order_relaxed);
  return true;
}

}  // namespace offbeat
