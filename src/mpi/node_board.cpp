// SPDX-License-Identifier: BSD-3-Clause
#include "mpi/node_board.hpp"

#include <unistd.h>

#include <cmath>
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

// The leader of a node offers, the others of the node accept; it withdraws the offer when all ranks of all nodes have answered.
SharedMemory share(const Host& host, MPI_Comm communicator, const Nodes& nodes, std::size_t bytes,
                   OfferedMemory::Way way) {
  std::optional<OfferedMemory> offered;
  MemoryOffer offer;
  const int leader = nodes.here.front();
  if (nodes.member == 0) {
    offered.emplace(way, bytes);
    offer = offered->offer();
    for (std::size_t k = 1; k < nodes.here.size(); ++k) {
      host.Send(&offer, sizeof offer, MPI_BYTE, nodes.here[k], 0, communicator);
    }
  } else {
    host.Recv(&offer, sizeof offer, MPI_BYTE, leader, 0, communicator, MPI_STATUS_IGNORE);
  }
  SharedMemory memory = accept(offer, bytes);
  if (!all_agree(host, communicator, static_cast<bool>(memory))) return {};
  return memory;
}

// For messages only.
std::vector<int> world_ranks(const Host& host, MPI_Comm communicator, const std::vector<int>& ranks) {
  std::vector<int> in_world = ranks;
  MPI_Group group;
  MPI_Group world;
  if (host.Comm_group(communicator, &group) != MPI_SUCCESS) return ranks;
  if (host.Comm_group(MPI_COMM_WORLD, &world) == MPI_SUCCESS) {
    host.Group_translate_ranks(group, static_cast<int>(ranks.size()), ranks.data(), world, in_world.data());
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

Nodes find_nodes(const Host& host, MPI_Comm communicator, const Settings& settings) {
  int rank = 0;
  int size = 1;
  host.Comm_rank(communicator, &rank);
  host.Comm_size(communicator, &size);
  int leader = rank;
  MPI_Comm node = MPI_COMM_NULL;
  if (settings.node_ranks > 0) {
    leader = rank / settings.node_ranks * settings.node_ranks;
  } else if (host.Comm_split_type(communicator, MPI_COMM_TYPE_SHARED, rank, MPI_INFO_NULL, &node) == MPI_SUCCESS &&
             node != MPI_COMM_NULL) {
    host.Bcast(&leader, 1, MPI_INT, 0, node);
    host.Comm_free(&node);
  }
  std::vector<int> leaders(static_cast<std::size_t>(size));
  host.Allgather(&leader, 1, MPI_INT, leaders.data(), 1, MPI_INT, communicator);
  return {leaders, rank};
}

std::unique_ptr<NodeBoard> NodeBoard::create(const Host& host, MPI_Comm communicator, const Nodes& nodes,
                                             const Settings& settings, bool shares_cores) {
  const BoardShape shape{.ranks = static_cast<int>(nodes.here.size()), .window_bytes = settings.window_bytes};
  const Patience patience{.shares_cores = shares_cores, .stall = {.after_s = settings.stall_s}};
  for (const auto way : {OfferedMemory::Way::memfd, OfferedMemory::Way::posix}) {
    if (SharedMemory memory = share(host, communicator, nodes, shape.total_bytes(), way)) {
      return std::unique_ptr<NodeBoard>(new NodeBoard(host, communicator, std::move(memory), shape, nodes, patience));
    }
  }
  return nullptr;
}

NodeBoard::NodeBoard(const Host& host, MPI_Comm communicator, SharedMemory memory, const BoardShape& shape,
                     const Nodes& nodes, const Patience& patience)
    : host_(&host),
      communicator_(communicator),
      memory_(std::move(memory)),
      board_(memory_.data(), shape, nodes.member, patience),
      world_ranks_(world_ranks(host, communicator, nodes.here)) {
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

  const std::string what = "allreduce number " + std::to_string(board_.entered) + " on " + std::to_string(board_.size) + " ranks of this node, " + std::to_string(board_.current_bytes) + " bytes";
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
