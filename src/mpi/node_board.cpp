// SPDX-License-Identifier: BSD-3-Clause
#include "mpi/node_board.hpp"

#include <optional>
#include <utility>

namespace offbeat {
namespace {

bool all_agree(const Host& host, MPI_Comm communicator, bool mine) {
  const int vote = mine ? 1 : 0;
  int all = 0;
  const int code = host.Allreduce(&vote, &all, 1, MPI_INT, MPI_MIN, communicator);
  return code == MPI_SUCCESS && all == 1;
}

bool is_one_node(const Host& host, MPI_Comm communicator, int rank, int size) {
  MPI_Comm node = MPI_COMM_NULL;
  int on_node = 0;
  const int code = host.Comm_split_type(communicator, MPI_COMM_TYPE_SHARED, rank, MPI_INFO_NULL, &node);
  if (code == MPI_SUCCESS && node != MPI_COMM_NULL) {
    host.Comm_size(node, &on_node);
    host.Comm_free(&node);
  }
  return all_agree(host, communicator, on_node == size);
}

// Rank 0 offers, the others accept; it withdraws the offer when all have answered.
SharedMemory share(const Host& host, MPI_Comm communicator, int rank, std::size_t bytes, OfferedMemory::Way way) {
  std::optional<OfferedMemory> offered;
  MemoryOffer offer;
  if (rank == 0) {
    offered.emplace(way, bytes);
    offer = offered->offer();
  }
  if (host.Bcast(&offer, sizeof offer, MPI_BYTE, 0, communicator) != MPI_SUCCESS) return {};
  SharedMemory memory = accept(offer, bytes);
  if (!all_agree(host, communicator, static_cast<bool>(memory))) return {};
  return memory;
}

}  // namespace

std::unique_ptr<NodeBoard> NodeBoard::create(const Host& host, MPI_Comm communicator, std::size_t window_bytes,
                                             bool shares_cores) {
  int rank = 0;
  int size = 1;
  host.Comm_rank(communicator, &rank);
  host.Comm_size(communicator, &size);
  if (!is_one_node(host, communicator, rank, size)) return nullptr;
  const BoardShape shape{.ranks = size, .window_bytes = window_bytes};
  for (const auto way : {OfferedMemory::Way::memfd, OfferedMemory::Way::posix}) {
    if (SharedMemory memory = share(host, communicator, rank, shape.total_bytes(), way)) {
      return std::unique_ptr<NodeBoard>(
          new NodeBoard(host, communicator, std::move(memory), shape, rank, shares_cores));
    }
  }
  return nullptr;
}

NodeBoard::NodeBoard(const Host& host, MPI_Comm communicator, SharedMemory memory, const BoardShape& shape, int rank,
                     bool shares_cores)
    : host_(&host),
      communicator_(communicator),
      memory_(std::move(memory)),
      board_(memory_.data(), shape, rank,
             Patience{.shares_cores = shares_cores,
                      .progress = {.call =
                                       [](void* state) {
                                         // Any call that looks for messages lets the host move all of them.
                                         auto* self = static_cast<NodeBoard*>(state);
                                         int found = 0;
                                         self->host_->Iprobe(MPI_ANY_SOURCE, 0, self->communicator_, &found,
                                                             MPI_STATUS_IGNORE);
                                       },
                                   .state = this}}) {}

}  // namespace offbeat
