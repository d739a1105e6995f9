// SPDX-License-Identifier: BSD-3-Clause
#include "mpi/node_board.hpp"

#include <unistd.h>

#include <cmath>
#include <numeric>
#include <optional>
#include <string>
#include <utility>

#include "base/log.hpp"

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

// For messages only.
std::vector<int> world_ranks(const Host& host, MPI_Comm communicator, int size) {
  std::vector<int> ranks(static_cast<std::size_t>(size));
  std::iota(ranks.begin(), ranks.end(), 0);
  std::vector<int> in_world = ranks;
  MPI_Group group;
  MPI_Group world;
  if (host.Comm_group(communicator, &group) != MPI_SUCCESS) return ranks;
  if (host.Comm_group(MPI_COMM_WORLD, &world) == MPI_SUCCESS) {
    host.Group_translate_ranks(group, size, ranks.data(), world, in_world.data());
    host.Group_free(&world);
  }
  host.Group_free(&group);
  return in_world;
}

std::string host_name() {
  char name[256] = "?";
  gethostname(name, sizeof name - 1);
  return name;
}

}  // namespace

std::unique_ptr<NodeBoard> NodeBoard::create(const Host& host, MPI_Comm communicator, std::size_t window_bytes,
                                             bool shares_cores, double stall_s) {
  int rank = 0;
  int size = 1;
  host.Comm_rank(communicator, &rank);
  host.Comm_size(communicator, &size);
  if (!is_one_node(host, communicator, rank, size)) return nullptr;
  const BoardShape shape{.ranks = size, .window_bytes = window_bytes};
  const Patience patience{.shares_cores = shares_cores, .stall = {.after_s = stall_s}};
  for (const auto way : {OfferedMemory::Way::memfd, OfferedMemory::Way::posix}) {
    if (SharedMemory memory = share(host, communicator, rank, shape.total_bytes(), way)) {
      return std::unique_ptr<NodeBoard>(new NodeBoard(host, communicator, std::move(memory), shape, rank, patience));
    }
  }
  return nullptr;
}

NodeBoard::NodeBoard(const Host& host, MPI_Comm communicator, SharedMemory memory, const BoardShape& shape, int rank,
                     const Patience& patience)
    : host_(&host),
      communicator_(communicator),
      memory_(std::move(memory)),
      board_(memory_.data(), shape, rank, patience),
      world_ranks_(world_ranks(host, communicator, shape.ranks)) {
  board_.patience.progress = {.call = [](void* state) { static_cast<NodeBoard*>(state)->progress(); }, .state = this};
  board_.patience.stall.call = [](void* state, double waited_s, bool over) {
    static_cast<NodeBoard*>(state)->report_stall(waited_s, over);
  };
  board_.patience.stall.state = this;
}

// Any call that looks for messages lets the host move all of them.
void NodeBoard::progress() {
  int found = 0;
  host_->Iprobe(MPI_ANY_SOURCE, 0, communicator_, &found, MPI_STATUS_IGNORE);
}

void NodeBoard::report_stall(double waited_s, bool over) {
  // One line, from the first rank that waits.
  const auto has_entered = [this](int rank) {
    return board_.presence(rank).load(std::memory_order_relaxed) >= board_.entered;
  };
  bool first = true;
  for (int rank = 0; rank < board_.rank; ++rank) first = first && !has_entered(rank);
  if (over ? !reported_ : !first) return;
  reported_ = !over;

  const std::string what = "allreduce number " + std::to_string(board_.entered) + " of a communicator of " +
                           std::to_string(board_.size) + " ranks, " + std::to_string(board_.current_bytes) + " bytes";
  const std::string me = "rank " + std::to_string(world_ranks_[static_cast<std::size_t>(board_.rank)]);
  const std::string time = std::to_string(std::lround(waited_s)) + " s";
  if (over) {
    say(what + ": complete after " + time);
    return;
  }
  std::string missing;
  int named = 0;
  for (int rank = 0; rank < board_.size; ++rank) {
    if (has_entered(rank)) continue;
    if (++named > 8) continue;
    missing += (missing.empty() ? "" : ", ") + std::to_string(world_ranks_[static_cast<std::size_t>(rank)]);
  }
  if (named > 8) missing += " and " + std::to_string(named - 8) + " more";
  say(what + ": " + me + " on " + host_name() + " has waited " + time + " for " +
      (missing.empty() ? "ranks that are inside it" : "rank " + missing) + " (ranks of MPI_COMM_WORLD)");
}

}  // namespace offbeat
