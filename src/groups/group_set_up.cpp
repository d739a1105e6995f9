// SPDX-License-Identifier: BSD-3-Clause
// How a group is made, and how it ends.
#include <sched.h>
#include <sys/random.h>

#include <algorithm>
#include <array>
#include <numeric>
#include <string>
#include <utility>
#include <vector>

#include "groups/group.hpp"
#include "groups/group_process.hpp"
#include "groups/messages.hpp"
#include "node/node_identity.hpp"
#include "node/whereabouts.hpp"

namespace offbeat {
namespace {

// The first message of a rank to the others. All ranks must agree on most of it.
struct Greeting {
  std::uint64_t build = 0;
  std::uint64_t settings = 0;
  std::uint64_t rules = 0;
  NodeIdentity node;
  int rank = 0;
  int size = 0;
  int is_ready = 0;  // 0: this rank cannot make a group at all
  std::uint64_t random = 0;
  GroupWorld world;  // of this process
  NetworkAddress address;
};

[[noreturn]] void refuse(int rank, const std::string& why) { throw BoardError(Trouble::set_up, rank, why); }

std::string name_of_rank(int rank) { return "rank " + std::to_string(rank); }

// Throws BoardError if these ranks cannot have a group. The text is equal on all ranks.
void require_agreement(const std::vector<Greeting>& all) {
  const Greeting& first = all.front();
  for (int rank = 0; rank < static_cast<int>(all.size()); ++rank) {
    const Greeting& each = all[static_cast<std::size_t>(rank)];
    const auto differ = [&](const char* what) {
      refuse(rank, std::string("rank 0 and ") + name_of_rank(rank) + " have different " + what);
    };
    if (each.is_ready == 0) refuse(rank, name_of_rank(rank) + " cannot make a group");
    if (each.size != static_cast<int>(all.size()) || each.rank != rank)
      refuse(rank, "the exchange function mixes up the ranks: " + name_of_rank(each.rank) + " of " +
                       std::to_string(each.size) + " ranks is in place " + std::to_string(rank));
    if (each.build != first.build) differ("builds of offbeat");
    if (each.settings != first.settings) differ("OFFBEAT_ settings");
    if (each.rules != first.rules) differ("rules (OFFBEAT_RULES)");
  }
}

std::string_view why_not_connected(NetworkAddress::State state) {
  switch (state) {
    case NetworkAddress::State::no_library:
      return "runs without MPI or without offbeat's preload library: start the program with `offbeat run`";
    case NetworkAddress::State::not_running:
      return "has not initialised MPI: do so first, in Python by `import mpi4py.MPI`";
    case NetworkAddress::State::one_thread:
      return "has initialised MPI for fewer threads than MPI_THREAD_MULTIPLE";
    case NetworkAddress::State::ready:
      break;
  }
  return "is in another MPI job";
}

bool may_be_one_job(const NetworkAddress& a, const NetworkAddress& b) {
  return a.ranks == b.ranks && (a.job == b.job || a.job == 0 || b.job == 0);
}

// Sets where the ranks are in MPI_COMM_WORLD. Returns the first rank that the MPI does not connect with rank
// 0, or the number of ranks.
int first_not_connected(const std::vector<Greeting>& all, std::vector<int>& world_ranks) {
  for (std::size_t rank = 0; rank < all.size(); ++rank) {
    const NetworkAddress& each = all[rank].address;
    const auto before = std::span(world_ranks).first(rank);
    if (each.state != NetworkAddress::State::ready || !may_be_one_job(each, all.front().address) ||
        std::ranges::find(before, each.rank) != before.end())
      return static_cast<int>(rank);
    world_ranks[rank] = each.rank;
  }
  return static_cast<int>(all.size());
}

std::uint64_t random_number() {
  std::uint64_t number = 0;
  static_cast<void>(!getrandom(&number, sizeof number, 0));
  return number | 1;  // never 0
}

// Returns what an observer sees of a new group. If no rank has a world, this group becomes the world of all.
ObservedGroup observed_group(GroupProcess& process, const std::vector<Greeting>& all, int rank) {
  const bool is_world = std::ranges::all_of(all, [](const Greeting& each) { return each.world.run == 0; });
  if (is_world) process.set_world({all.front().random, rank, static_cast<int>(all.size())});
  ObservedGroup group{
      .world = process.world(), .identity = all.front().random, .rank = rank, .world_ranks = {}};
  for (const Greeting& each : all) {
    const bool is_here = each.world.run == group.world.run;
    group.world_ranks.push_back(is_world ? each.rank : is_here ? each.world.rank : -1);
  }
  return group;
}

}  // namespace

Group::Group(GroupProcess& process, int rank, int size)
    : OperationsOwner(rank, size, WhenHostEnds::go_on),
      process_(process),
      membership_(size),
      fork_generation_(GroupProcess::fork_generation()),
      counters_(process.counters.add()),
      timer_(*counters_, process.settings.counters) {
  counters_->rank = static_cast<std::uint32_t>(rank);
  counters_->size = static_cast<std::uint32_t>(size);
  counters_->is_group = 1;
}

// GroupMaker makes a group of several ranks, step by step. Every function is collective, and throws
// BoardError on all ranks if one of them cannot go on.
class GroupMaker {
 public:
  // Allocates all memory that the first exchange needs.
  GroupMaker(int rank, int size, const Exchange& exchange, GroupObserver* observer)
      : rank_(rank),
        size_(size),
        observer_(observer),
        greetings_(static_cast<std::size_t>(size)),
        set_up_(rank, size, exchange) {}

  [[nodiscard]] std::unique_ptr<Group> make(Group::MakeNetwork make_network) {
    greet(make_network);
    require_agreement(greetings_);
    require_windows();
    place_ranks();
    if (has_one_node()) {
      group_->network_.reset();
    } else {
      connect_nodes();
    }
    make_board();
    equip();
    process_->joins_group(rank_);
    return std::move(group_);
  }

 private:
  // A rank that cannot take part says so, because the others would wait for it otherwise.
  void greet(Group::MakeNetwork make_network) {
    Greeting mine{
        .node = NodeIdentity::of_this_process(), .rank = rank_, .size = size_, .world = {}, .address = {}};
    std::string why_not;
    try {
      process_ = &GroupProcess::get();
      mine.build = process_->build;
      mine.settings = process_->settings_hash;
      mine.rules = process_->selection.hash_of_user_rules();
      mine.random = random_number();
      mine.world = process_->world();
      group_.reset(new Group(*process_, rank_, size_));
      group_->network_ = make_network();
      if (group_->network_ != nullptr) mine.address = group_->network_->address();
      nodes_.resize(greetings_.size());
      world_ranks_.resize(greetings_.size());
      numbers_.resize(greetings_.size());
      std::iota(numbers_.begin(), numbers_.end(), 0);
      mine.is_ready = 1;
    } catch (const std::exception& error) {
      why_not = error.what();
    }
    set_up_.gather(mine, greetings_.data());
    if (mine.is_ready == 0) refuse(rank_, why_not);
  }

  void require_windows() const {
    constexpr std::size_t widest_element = 32;
    const std::size_t bytes = process_->settings.window_bytes;
    if (bytes == 0) refuse(rank_, "OFFBEAT_BOARD_KIB=0 leaves no shared memory");
    if (bytes / static_cast<std::size_t>(size_) < widest_element)
      refuse(rank_, "OFFBEAT_BOARD_KIB is too small for " + std::to_string(size_) + " ranks");
  }

  // Finds out which ranks share a node. OFFBEAT_NODE_RANKS, which makes up nodes, works only with an MPI.
  void place_ranks() {
    first_unconnected_ = first_not_connected(greetings_, world_ranks_);
    Membership& membership = group_->membership_;
    if (first_unconnected_ == size_ && process_->settings.node_ranks > 0) {
      membership.group_by([&](int each) { return each / process_->settings.node_ranks; });
    } else {
      std::ranges::transform(greetings_, nodes_.begin(), &Greeting::node);
      membership.group(nodes_);
    }
    group_->locality_.emplace(membership, rank_);
  }
  [[nodiscard]] bool has_one_node() const { return group_->membership_.nodes() == 1; }

  void connect_nodes() {
    if (first_unconnected_ < size_) {
      const auto state = greetings_[static_cast<std::size_t>(first_unconnected_)].address.state;
      refuse(first_unconnected_, "the ranks are on several machines or in several containers, and " +
                                     name_of_rank(first_unconnected_) + " " +
                                     std::string(why_not_connected(state)));
    }
    group_->when_host_ends_ = WhenHostEnds::fail;
    if (!group_->network_->connect(set_up_, *group_->locality_, world_ranks_, greetings_.front().random))
      refuse(rank_, "the MPI has no communicator, or a process no memory, left for the group");
  }

  void make_board() {
    const RankNames names{.numbers = numbers_, .space = "", .everyone = "group"};
    const BoardSize size{process_->settings.window_bytes, NodeBoard::stages_of_communicator, true,
                         has_one_node() ? Messages::ring_bytes(size_) : 0};
    std::string why_not;
    group_->board_ = NodeBoard::create(set_up_, *group_->locality_, names, process_->settings,
                                       process_->windows, size, why_not);
    if (group_->board_ == nullptr) refuse_without_board(why_not);
    // With one stage, calls that were begun would share it with blocking calls. All ranks see the same
    // number.
    if (group_->board_->stages() == 1) refuse(0, "no memory for the stages of a group");
  }

  // Only the rank that was refused knows why.
  [[noreturn]] void refuse_without_board(const std::string& why_not) {
    struct Text {
      std::array<char, 256> text{};
    };
    Text text;
    why_not.copy(text.text.data(), text.text.size() - 1);
    std::vector<Text> all(greetings_.size());
    set_up_.gather(text, all.data());
    const auto found = std::ranges::find_if(all, [](const Text& each) { return each.text[0] != '\0'; });
    const auto refused = found == all.end() ? 0 : static_cast<int>(found - all.begin());
    refuse(refused,
           name_of_rank(refused) + ": " + (found == all.end() ? "no shared memory" : found->text.data()));
  }

  // A failure here is this rank's alone, so the ranks vote afterwards.
  void equip() {
    const bool is_made = run_unless_out_of_memory([&] {
      Group& group = *group_;
      NodeBoard& board = *group.board_;
      const ObservedGroup seen = observed_group(*process_, greetings_, rank_);
      group.counters_->identity = seen.identity;
      process_->counters.join(seen.world.run, seen.world.rank, seen.world.ranks, "");
      if (process_->settings.counters && process_->settings.stall_s > 0) answer_where_this_thread_is();
      if (observer_ != nullptr) group.log_ = observer_->joins(seen);
      group.renew(group.plans_of_begun_);
      group.plans_of_runs_ = group.plans_of_begun_;
      if (!has_one_node()) {
        board.serve(group.network_->client());
        group.messages_ = group.network_->carrier();
      } else {
        group.messages_ = std::make_unique<Messages>(board);
      }
      for (int k = 0; k < board.stages(); ++k) {
        Board& stage = board.stage(k).board;
        auto& transport = group.transports_[static_cast<std::size_t>(k)];
        transport = has_one_node() ? std::make_unique<BoardTransport>(Patience{})
                                   : group.network_->transport(stage, k);
        transport->use(stage);
      }
      board.board().waiters = group.transports_.front().get();
    });
    if (!set_up_.all(is_made)) refuse(rank_, "a rank has no memory left");
  }

  const int rank_;
  const int size_;
  GroupObserver* const observer_;
  std::vector<Greeting> greetings_;  // of all ranks
  CallbackSetUp set_up_;
  GroupProcess* process_ = nullptr;
  std::unique_ptr<Group> group_;
  std::vector<int> numbers_;  // 0, 1, 2 ...
  std::vector<int> world_ranks_;
  std::vector<NodeIdentity> nodes_;
  int first_unconnected_ = 0;
};

std::unique_ptr<Group> Group::make(int rank, int size, const Exchange& exchange, GroupObserver* observer,
                                   MakeNetwork make_network) {
  if (size > 1) return GroupMaker(rank, size, exchange, observer).make(make_network);
  GroupProcess& process = GroupProcess::get();
  std::unique_ptr<Group> group(new Group(process, rank, size));
  const GroupWorld world = process.world();
  if (observer != nullptr && world.run != 0)
    group->log_ = observer->joins(
        {.world = world, .identity = random_number(), .rank = rank, .world_ranks = {world.rank}});
  process.joins_group(rank);
  return group;
}

void Group::free(std::unique_ptr<Group> group) noexcept {
  Group& mine = *group;
  if (mine.fork_generation_ != GroupProcess::fork_generation()) {
    // The memory is the parent's, too, so a child only unmaps it. It cannot call MPI, so it leaks a group
    // that has a network.
    if (mine.network_ != nullptr) static_cast<void>(group.release());
    return;
  }
  const auto are_under_way = [&] {
    const OperationsUnderWay::Lock lock(operations_under_way);
    return mine.in_use_ > 0;
  };
  const auto is_watched = [&] {
    const OperationsUnderWay::Lock lock(operations_under_way);
    return mine.is_watched();
  };
  if (mine.board_ != nullptr) {
    if (are_under_way()) run_ignoring_exceptions([&] { mine.give_up("it has freed the group"); });
    while (are_under_way()) {
      operations_under_way.advance(HostCalls::all);
      operations_under_way.settle_in_any_thread();
      sched_yield();
    }
    while (is_watched()) {  // the thread may sleep
      mine.board_->board().bell().ring();
      sched_yield();
    }
    if (mine.network_ != nullptr && mine.board_->board().broken().load(std::memory_order_acquire) != 0)
      mine.network_->forbid_reuse();
    mine.board_->leave();
  }
}

}  // namespace offbeat
