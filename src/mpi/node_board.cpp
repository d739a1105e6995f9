// SPDX-License-Identifier: BSD-3-Clause
#include "mpi/node_board.hpp"

#include <sys/sysinfo.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cmath>
#include <cstring>
#include <iterator>
#include <new>
#include <optional>
#include <string>
#include <utility>

#include "base/error.hpp"
#include "base/log.hpp"
#include "collectives/algorithm.hpp"
#include "transport/node/cores.hpp"

namespace offbeat {
namespace {

// Leaders tell each other of failures by messages beside all lanes.
constexpr int failure_tag = most_lanes;

// The lowest rank that says no; the number of ranks if all say yes.
int first_without(const Host& host, MPI_Comm communicator, bool mine) {
  int rank = 0;
  int size = 1;
  host.Comm_rank(communicator, &rank);
  host.Comm_size(communicator, &size);
  const int vote = mine ? size : rank;
  int first = 0;
  return host.Allreduce(&vote, &first, 1, MPI_INT, MPI_MIN, communicator) == MPI_SUCCESS ? first : rank;
}

enum class Way { by_proc, by_socket };

// The leader's memory file, on all ranks of a node; false where it cannot be had. Messages that fail count as
// no offer.
Descriptor hand_out(const Host& host, MPI_Comm communicator, const Nodes& nodes, std::size_t bytes, Way way,
                    Refusals& refusals) {
  MemoryOffer offer;
  Mailbox::Address address;
  if (nodes.member > 0) {
    const int leader = nodes.here.front();
    std::optional<Mailbox> mailbox;
    if (way == Way::by_socket) {
      address = mailbox.emplace(refusals).address();
      host.Send(&address, sizeof address, MPI_BYTE, leader, 0, communicator);
    }
    if (host.Recv(&offer, sizeof offer, MPI_BYTE, leader, 0, communicator, MPI_STATUS_IGNORE) !=
        MPI_SUCCESS) {
      return Descriptor();
    }
    return mailbox ? accept(offer, *mailbox, refusals) : accept(offer, refusals);
  }
  Descriptor file;
  if (nodes.here.size() <= static_cast<std::size_t>(Board::most_ranks)) {
    file = make_memory(bytes, refusals);
  } else {
    refusals.add("a board", E2BIG);
  }
  offer = offer_of(file);
  for (std::size_t k = 1; k < nodes.here.size(); ++k) {
    if (way == Way::by_socket && host.Recv(&address, sizeof address, MPI_BYTE, nodes.here[k], 0, communicator,
                                           MPI_STATUS_IGNORE) == MPI_SUCCESS) {
      Mailbox::send(file, address, refusals);
    }
    host.Send(&offer, sizeof offer, MPI_BYTE, nodes.here[k], 0, communicator);
  }
  return file;
}

// What stands in Board::broken: not 0 for any rank of MPI_COMM_WORLD.
std::uint64_t failed(int world_rank) { return static_cast<std::uint64_t>(world_rank) + 1; }

// For messages only.
std::vector<int> world_ranks(const Host& host, MPI_Comm communicator, std::span<const int> ranks) {
  std::vector<int> in_world(ranks.begin(), ranks.end());
  MPI_Group group;
  MPI_Group world;
  if (host.Comm_group(communicator, &group) != MPI_SUCCESS) return in_world;
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

// "rank 3", "ranks 3, 5 and 7", "ranks 1, 2, 3, 4, 5, 6, 7, 8 and 40 more".
std::string rank_list(const std::vector<int>& ranks) {
  constexpr std::size_t most_named = 8;
  const std::size_t named = std::min(ranks.size(), most_named);
  std::string text = ranks.size() == 1 ? "rank " : "ranks ";
  for (std::size_t k = 0; k < named; ++k) {
    const bool last = k > 0 && k + 1 == ranks.size();
    text += (k == 0 ? "" : last ? " and " : ", ") + std::to_string(ranks[k]);
  }
  if (ranks.size() > named) text += " and " + std::to_string(ranks.size() - named) + " more";
  return text;
}

// Said once in a process, by the first rank that was refused the first time. The others keep silent for ever.
void say_why_not(const Refusals& refusals, std::size_t ranks, bool is_first) {
  static std::atomic<bool> said{false};
  if (said.exchange(true) || !is_first) return;
  std::string why;
  for (const Refusal& refusal : refusals) {
    why += (why.empty() ? "" : "; ") + std::string(refusal.call) + ": " + std::strerror(refusal.code);
  }
  say("no shared memory for " + std::to_string(ranks) + " ranks on " + host_name() + " (" + why +
      "): messages are used instead");
}

Patience patience_for(const Settings& settings, bool shares_cores) {
  Patience patience{.shares_cores = shares_cores, .stall = {.after_s = settings.stall_s}};
  switch (settings.wait) {
    case WaitPolicy::automatic:
      break;
    case WaitPolicy::spin:
      patience.shares_cores = false;
      break;
    case WaitPolicy::sleep:
      patience.sleep_after_s = 0;
      [[fallthrough]];
    case WaitPolicy::yield:
      patience.shares_cores = true;
  }
  return patience;
}

int quota() {
  static const int cores = core_quota();
  return cores;
}

// By the little that can be known without asking the other ranks.
bool seems_to_share_cores() { return launcher_ranks_on_node() > std::min(get_nprocs(), quota()); }

}  // namespace

void find_nodes(const Host& host, MPI_Comm communicator, const Settings& settings, NodeLists& lists) {
  int rank = 0;
  host.Comm_rank(communicator, &rank);
  int leader = rank;
  MPI_Comm node = MPI_COMM_NULL;
  if (settings.node_ranks > 0) {
    leader = rank / settings.node_ranks * settings.node_ranks;
  } else if (host.Comm_split_type(communicator, MPI_COMM_TYPE_SHARED, rank, MPI_INFO_NULL, &node) ==
                 MPI_SUCCESS &&
             node != MPI_COMM_NULL) {
    host.Bcast(&leader, 1, MPI_INT, 0, node);
    host.Comm_free(&node);
  }
  host.Allgather(&leader, 1, MPI_INT, lists.leader_of_rank.data(), 1, MPI_INT, communicator);
  lists.sort_out(rank);
}

std::unique_ptr<NodeBoard> NodeBoard::create(const Host& host, MPI_Comm communicator, const Nodes& nodes,
                                             const Settings& settings, bool ready) {
  const BoardShape shape{.ranks = static_cast<int>(nodes.here.size()), .window_bytes = settings.window_bytes};
  Refusals refusals;
  if (!ready) refusals.add("malloc", ENOMEM);
  int first = 0;
  for (const Way way : {Way::by_proc, Way::by_socket}) {
    const Descriptor file = hand_out(host, communicator, nodes, shape.total_bytes(), way, refusals);
    // Whatever can fail on one rank comes before the vote, and nothing after it.
    std::unique_ptr<NodeBoard> mine;
    std::vector<CoreSet> cores;
    try {
      SharedMemory memory = SharedMemory::map(file, shape.total_bytes(), refusals);
      cores.resize(nodes.here.size());
      if (memory) mine.reset(new NodeBoard(host, communicator, std::move(memory), shape, nodes));
    } catch (const std::bad_alloc&) {
      refusals.add("malloc", ENOMEM);
    }
    first = first_without(host, communicator, ready && mine != nullptr);
    if (first == nodes.ranks) {
      mine->look_at_cores(settings, cores);
      return mine;
    }
  }
  try_to([&] {
    say_why_not(refusals, nodes.here.size(), first == nodes.here[static_cast<std::size_t>(nodes.member)]);
  });
  return nullptr;
}

Patience patience_without_board(const Settings& settings) {
  Patience patience = patience_for(settings, seems_to_share_cores());
  patience.stall.after_s = 0;  // nobody can tell who is late
  return patience;
}

NodeBoard::NodeBoard(const Host& host, MPI_Comm communicator, SharedMemory memory, const BoardShape& shape,
                     const Nodes& nodes)
    : host_(&host),
      communicator_(communicator),
      memory_(std::move(memory)),
      board_(memory_.data(), shape, nodes.member, {}),
      world_ranks_(world_ranks(host, communicator, nodes.here)),
      host_name_(host_name()),
      has_other_nodes_(nodes.count() > 1) {
  if (nodes.member == 0) {
    std::ranges::remove_copy(nodes.leaders, std::back_inserter(other_leaders_), nodes.here.front());
  }
  board_.patience.progress = {.call = [](void* state) { static_cast<NodeBoard*>(state)->progress(); },
                              .state = this};
  board_.patience.stall = {
      .call =
          [](void* state, double waited_s, bool over) {
            try_to([&] { static_cast<NodeBoard*>(state)->report_stall(waited_s, over); });
          },
      .state = this};
  // Smaller windows would share a page with those of others, and lie where the first of them runs.
  constexpr std::size_t huge_page = std::size_t{2} << 20;
  if (shape.window_bytes >= huge_page) memory_.prefer_huge_pages();
  // For look_at_cores of the others, where they write nothing before they have read it.
  std::memcpy(board_.inline_slot(0, board_.rank).data, &cores_, sizeof cores_);
}

void NodeBoard::look_at_cores(const Settings& settings, std::span<CoreSet> work_space) {
  for (int rank = 0; rank < board_.size; ++rank) {
    CoreSet& cores = work_space[static_cast<std::size_t>(rank)];
    // Of two ranks, the other may be in its first collective and use this rank's slot.
    if (rank == board_.rank) {
      cores = cores_;
    } else {
      std::memcpy(&cores, board_.inline_slot(0, rank).data, sizeof cores);
    }
  }
  // From what all ranks see alike: it decides how messages are cut.
  board_.at_once = std::clamp(together(work_space).count(), 1, board_.size);
  // What one communicator of this node has found out holds for its parts, too: the other ranks are still
  // there.
  static std::atomic<bool> cores_are_shared{false};
  if (seems_to_share_cores() || board_.size > quota() || must_share_cores(work_space))
    cores_are_shared = true;
  const Patience chosen = patience_for(settings, cores_are_shared);
  board_.patience.shares_cores = chosen.shares_cores;
  board_.patience.sleep_after_s = chosen.sleep_after_s;
  board_.patience.stall.after_s = chosen.stall.after_s;
}

// Any call that looks for messages lets the host move all of them.
bool NodeBoard::is_given_up() {
  int is_told = 0;
  host_->Iprobe(MPI_ANY_SOURCE, failure_tag, communicator_, &is_told, MPI_STATUS_IGNORE);
  Board::Word& broken = board_.broken();
  if (is_told != 0 && !was_told_ &&
      host_->Recv(&notice_, 1, MPI_INT, MPI_ANY_SOURCE, failure_tag, communicator_, MPI_STATUS_IGNORE) ==
          MPI_SUCCESS) {
    was_told_ = true;
    broken.store(failed(notice_), std::memory_order_relaxed);
  }
  return broken.load(std::memory_order_relaxed) != 0;
}

void NodeBoard::progress() {
  if (!is_given_up()) return;
  const std::uint64_t by = board_.broken().load(std::memory_order_relaxed) - 1;
  throw CommunicationError("rank " + std::to_string(by) + " of MPI_COMM_WORLD has failed", MPI_ERR_OTHER);
}

void NodeBoard::give_up(const char* why) noexcept {
  Board::Word& broken = board_.broken();
  std::uint64_t by = 0;
  if (broken.compare_exchange_strong(by, failed(world_rank()), std::memory_order_relaxed)) {
    by = failed(world_rank());
    try_to([&] {
      say(call() + ": rank " + std::to_string(world_rank()) + " of MPI_COMM_WORLD has failed: " + why +
          "; this communicator can no longer be used");
    });
  }
  board_.bell().ring();
  // A node that was told tells nobody: all were.
  if (was_told_) return;
  notice_ = static_cast<int>(by - 1);
  for (const int leader : other_leaders_) {
    MPI_Request request;
    if (host_->Isend(&notice_, 1, MPI_INT, leader, failure_tag, communicator_, &request) == MPI_SUCCESS) {
      host_->Request_free(&request);
    }
  }
}

std::string NodeBoard::call() const {
  return "allreduce number " + std::to_string(board_.entered) + " on this communicator, " +
         std::to_string(board_.current_bytes) + " bytes, " + std::to_string(board_.size) + " ranks on " +
         host_name_;
}

void NodeBoard::report_stall(double waited_s, bool over) {
  std::vector<int> missing;
  bool lower_rank_waits = false;
  for (int rank = 0; rank < board_.size; ++rank) {
    if (board_.presence(rank).entered.load(std::memory_order_relaxed) < board_.entered) {
      missing.push_back(world_ranks_[static_cast<std::size_t>(rank)]);
    } else if (rank < board_.rank) {
      lower_rank_waits = true;
    }
  }
  // One line for the node, from the first rank that waits; and who said it says that it is over.
  if (over ? !reported_ : lower_rank_waits) return;
  reported_ = !over;

  const std::string time = std::to_string(std::lround(waited_s)) + " s";
  if (over) {
    const bool has_failed = board_.broken().load(std::memory_order_relaxed) != 0;
    say(call() + (has_failed ? ": failed after " : ": complete after ") + time);
    return;
  }
  const std::string whom = !missing.empty()   ? rank_list(missing) + " on " + host_name_
                           : has_other_nodes_ ? "ranks on other nodes"
                                              : "ranks that have entered it";
  say(call() + ": rank " + std::to_string(world_rank()) + " has waited " + time + " for " + whom +
      " (ranks of MPI_COMM_WORLD)");
}

}  // namespace offbeat
