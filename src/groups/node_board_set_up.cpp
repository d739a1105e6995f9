// SPDX-License-Identifier: BSD-3-Clause
// How the ranks of a node get their board.
#include <sys/sysinfo.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstring>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/error.hpp"
#include "base/launcher.hpp"
#include "base/page_bytes.hpp"
#include "groups/node_board.hpp"
#include "groups/set_up.hpp"
#include "node/cores.hpp"

namespace offbeat {
namespace {

// HandOut passes the leader's memory file to all ranks of a node. If that fails, they get none.
class HandOut {
 public:
  // Creates the leader's file, which by_offer() passes on. `shape` has the number of stages that is wanted. A
  // rank that has no room for them may have room for one stage, because /dev/shm may be small, and address
  // space limited.
  HandOut(const Locality& locality, BoardShape shape, Refusals& refusals)
      : locality_(locality),
        refusals_(refusals),
        offers_(static_cast<std::size_t>(locality.membership.nodes())),
        lists_(offers_.size() == 1 ? 0 : 2 * static_cast<std::size_t>(locality.membership.ranks())) {
    if (shape.stages > 1 && !has_address_space_for(shape.total_bytes())) shape.stages = 1;
    if (!has_address_space_for(shape.total_bytes())) {
      refusals.add("RLIMIT_AS", ENOMEM);
      return;
    }
    stages_ = shape.stages;
    if (locality.member > 0) return;
    if (locality.ranks_of_own_node().size() > static_cast<std::size_t>(Board::most_ranks)) {
      refusals.add("a board", E2BIG);
      return;
    }
    file_ = make_memory(shape.total_bytes(), refusals);
    if (file_ || shape.stages == 1) return;
    stages_ = shape.stages = 1;
    file_ = make_memory(shape.total_bytes(), refusals);
  }

  // Returns how many stages this rank has room for, as far as it knows; 0 for none.
  [[nodiscard]] int stages() const { return stages_; }

  // Both functions are collective. `bytes` is the least size of the file. A rank needs only the offer of its
  // leader. But only the communicator connects the two, so every rank gets the offers of all nodes.
  const Descriptor& by_offer(SetUp& set_up, std::size_t bytes) {
    const Membership& all = locality_.membership;
    const MemoryOffer mine = locality_.member == 0 ? offer_of(file_) : MemoryOffer{};
    set_up.gather_from(
        all.nodes(), [&](int node) { return all.rank(node, 0); }, mine, offers_.data(), lists_);
    if (locality_.member > 0) file_ = accept(of_leader(), bytes, refusals_);
    return file_;
  }

  // Call this after by_offer() if ranks cannot open the leader's file.
  const Descriptor& by_socket(SetUp& set_up, std::size_t bytes) {
    std::vector<Mailbox::Address> addresses;
    const auto ranks = static_cast<std::size_t>(locality_.membership.ranks());
    if (!set_up.all(run_unless_out_of_memory([&] { addresses.resize(ranks); }))) return file_;
    const auto address_of = [&](int rank) -> const Mailbox::Address& {
      return addresses[static_cast<std::size_t>(rank)];
    };
    Mailbox mailbox(refusals_);
    set_up.gather(mailbox.address(), addresses.data());
    if (locality_.member > 0) mailbox.listen_to(address_of(locality_.ranks_of_own_node().front()), refusals_);
    static_cast<void>(set_up.all(true));  // from here on, all listen
    if (locality_.member == 0) {
      for (const int rank : locality_.ranks_of_own_node().subspan(1))
        mailbox.send(file_, address_of(rank), refusals_);
    }
    static_cast<void>(set_up.all(true));  // from here on, everything is sent
    if (locality_.member > 0) file_ = mailbox.take(of_leader(), bytes, refusals_);
    return file_;
  }

 private:
  [[nodiscard]] const MemoryOffer& of_leader() const {
    return offers_[static_cast<std::size_t>(locality_.node)];
  }

  const Locality& locality_;
  Refusals& refusals_;
  std::vector<MemoryOffer> offers_;  // from the leader of each node
  std::vector<int> lists_;           // work space
  Descriptor file_;                  // the leader keeps it open until all ranks have it
  int stages_ = 0;
};

std::string host_name() {
  char name[256] = "?";
  gethostname(name, sizeof name - 1);
  return name;
}

// Says why there is no board.
std::string why_not_text(const Refusals& refusals, std::size_t ranks) {
  std::string why;
  for (const Refusal& refusal : refusals) {
    why += (why.empty() ? "" : "; ") + std::string(refusal.call) + ": " + std::strerror(refusal.code);
  }
  return "no shared memory for " + std::to_string(ranks) + " ranks on " + host_name() + " (" + why + ")";
}

Patience patience_for(const Settings& settings, bool shares_cores) {
  Patience patience{.shares_cores = shares_cores, .stall = {.after_ns = settings.stall_s * ns_per_s}};
  switch (settings.wait) {
    case WaitPolicy::automatic:
      break;
    case WaitPolicy::spin:
      patience.shares_cores = false;
      patience.yields_to_threads = false;
      break;
    case WaitPolicy::sleep:
      patience.sleep_after_ns = 0;
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

// Guesses whether ranks share cores, without asking them: from the launcher's count of ranks on this node,
// the processors and the CPU quota.
bool seems_to_share_cores() {
  static const bool does = launcher_ranks_on_node() > std::min(get_nprocs(), quota());
  return does;
}

}  // namespace

// Everything that can fail on one rank alone happens before a vote.
std::unique_ptr<NodeBoard> NodeBoard::create(SetUp& set_up, const Locality& locality, const RankNames& names,
                                             const Settings& settings, WindowBudget& budget,
                                             const BoardSize& size, std::string& why_not) {
  BoardShape shape{.ranks = static_cast<int>(locality.ranks_of_own_node().size()),
                   .window_bytes = size.window_bytes,
                   .stages = size.stages,
                   .compares_calls = size.compares_calls,
                   .ring_bytes = size.ring_bytes,
                   .page_bytes = page_bytes()};
  Refusals refusals;
  std::optional<HandOut> memory_of_node;
  std::vector<CoreSet> cores;
  const bool is_ready = run_unless_out_of_memory([&] {
    memory_of_node.emplace(locality, shape, refusals);
    cores.resize(locality.ranks_of_own_node().size());
  });
  if (!is_ready) refusals.add("malloc", ENOMEM);
  shape.stages = set_up.least(is_ready ? memory_of_node->stages() : 0);
  int first = shape.stages > 0 ? 0 : set_up.first_without(is_ready && memory_of_node->stages() > 0);
  for (; shape.stages > 0; shape.stages = shape.stages > 1 ? 1 : 0) {
    for (const auto way : {&HandOut::by_offer, &HandOut::by_socket}) {
      const Descriptor& file = ((*memory_of_node).*way)(set_up, shape.total_bytes());
      std::unique_ptr<NodeBoard> mine;
      const bool is_made = run_unless_out_of_memory([&] {
        SharedMemory memory = SharedMemory::map(file, shape.total_bytes(), refusals);
        if (!memory) return;
        mine.reset(new NodeBoard(std::move(memory), shape, size, locality, names, budget));
      });
      if (locality.member == 0 && mine != nullptr && can_give_pages_back(file)) mine->board().open_gate();
      if (!is_made) refusals.add("malloc", ENOMEM);
      first = set_up.first_without(mine != nullptr);
      if (first == locality.membership.ranks()) {
        mine->meet_others(settings, cores);
        return mine;
      }
    }
  }
  if (first == set_up.rank)
    run_unless_out_of_memory([&] { why_not = why_not_text(refusals, locality.ranks_of_own_node().size()); });
  return nullptr;
}

Patience patience_without_board(const Settings& settings) {
  Patience patience = patience_for(settings, seems_to_share_cores());
  patience.stall.after_ns = 0;  // without a board, no rank can tell which one is late
  return patience;
}

NodeBoard::NodeBoard(SharedMemory memory, const BoardShape& shape, const BoardSize& size,
                     const Locality& locality, const RankNames& names, WindowBudget& budget)
    : budget_(budget),
      memory_(std::move(memory)),
      shape_(shape),
      size_(size),
      locality_(locality),
      space_(names.space),
      everyone_(names.everyone),
      host_name_(host_name()) {
  stages_.reserve(static_cast<std::size_t>(stages()));
  for (int k = 0; k < stages(); ++k) stages_.push_back(std::make_unique<Stage>(*this, k));
  ranks_.reserve(locality.ranks_of_own_node().size());
  for (const int rank : locality.ranks_of_own_node())
    ranks_.push_back(names.numbers[static_cast<std::size_t>(rank)]);
  peers_.reserve(locality.ranks_of_own_node().size());
  // Only windows of at least a huge page get huge pages. Smaller windows would share one with windows of
  // other ranks, near the core that touched it first.
  if (shape.window_bytes >= huge_page_bytes()) memory_.prefer_huge_pages();
  // meet_others() of the other ranks reads this. They write nothing here before they have read it.
  static_assert(sizeof mine_ <= BoardShape::inline_bytes);
  std::memcpy(board().inline_slot(0, locality_.member).data, &mine_, sizeof mine_);
}

void NodeBoard::meet_others(const Settings& settings, std::span<CoreSet> work_space) {
  for (int rank = 0; rank < shape_.ranks; ++rank) {
    Introduction other = mine_;
    // On a board of two ranks, the other one may already be in its first collective and use this rank's slot.
    if (rank != locality_.member) std::memcpy(&other, board().inline_slot(0, rank).data, sizeof other);
    work_space[static_cast<std::size_t>(rank)] = other.cores;
    peers_.emplace_back(other.process);
  }
  // Other ranks may still read these slots, so before the second collective this one waits for all of them.
  board().slot_readers.front().number = ~std::uint64_t{0};
  // All ranks compute this from equal data, because it decides how messages are cut.
  const int concurrent_ranks = std::max(most_with_own_core(work_space), 1);
  // A finding of one communicator also holds for its parts on this node, because the other ranks are still
  // there.
  static std::atomic<bool> cores_are_shared{false};
  if (seems_to_share_cores() || shape_.ranks > std::min(quota(), concurrent_ranks)) cores_are_shared = true;
  const Patience chosen = patience_for(settings, cores_are_shared);
  for (int k = 0; k < stages(); ++k) {
    Board& board = stage(k).board;
    board.concurrent_ranks = concurrent_ranks;
    board.has_died = {
        .call = [](void* self, int rank) { return static_cast<NodeBoard*>(self)->has_died(rank); },
        .state = this};
    board.patience.shares_cores = chosen.shares_cores;
    board.patience.yields_to_threads = chosen.yields_to_threads;
    board.patience.sleep_after_ns = chosen.sleep_after_ns;
    board.patience.stall.after_ns = chosen.stall.after_ns;
  }
}

}  // namespace offbeat
