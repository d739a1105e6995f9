// SPDX-License-Identifier: BSD-3-Clause
// How a group is made, and how it ends.
#include <sched.h>
#include <sys/random.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <numeric>
#include <optional>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "base/log.hpp"
#include "groups/group.hpp"
#include "groups/group_process.hpp"
#include "groups/messages.hpp"
#include "groups/network_client.hpp"
#include "groups/network_transport.hpp"
#include "groups/own_network.hpp"
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

// What can connect several nodes, the best one first. A network that this process lacks is null.
using Networks = std::array<std::unique_ptr<Network>, 2>;
// The addresses of a rank in these networks.
using Addresses = std::array<NetworkAddress, std::tuple_size_v<Networks>>;

// Says why a network does not connect the ranks.
struct Apart {
  int rank;
  std::string why;
};
// Returns nothing if network `index` connects all ranks. It gives the same result on all ranks.
std::optional<Apart> find_apart(const Network* network, std::size_t index,
                                const std::vector<Addresses>& all) {
  std::vector<NetworkAddress> addresses;
  for (const Addresses& each : all) {
    if (!each[index].is_usable())
      return Apart{static_cast<int>(addresses.size()), each[index].why_not.data()};
    addresses.push_back(each[index]);
  }
  const std::size_t rank = network->first_apart(addresses);
  if (rank == all.size()) return std::nullopt;
  return Apart{static_cast<int>(rank), "is in another MPI job"};
}

std::uint64_t random_number() {
  std::uint64_t number = 0;
  static_cast<void>(!getrandom(&number, sizeof number, 0));
  return number | 1;  // never 0
}

// Returns what an observer sees of a new group. If no rank has a world, this group becomes the world of all.
ObservedGroup observed_group(GroupProcess& process, const std::vector<Greeting>& all, int rank,
                             bool is_on_one_node) {
  const bool is_world = std::ranges::all_of(all, [](const Greeting& each) { return each.world.run == 0; });
  if (is_world) process.set_world({all.front().random, rank, static_cast<int>(all.size()), is_on_one_node});
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
      begun_timer_(std::make_shared<BegunTimer>(counters_, process.settings.counters)),
      timer_(*counters_, process.settings.counters, &begun_timer_->times_lock()) {
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

  [[nodiscard]] std::unique_ptr<Group> make(Group::MakeNetwork make_mpi) {
    greet();
    require_agreement(greetings_);
    require_windows();
    place_ranks();
    if (!has_one_node()) connect_nodes(make_mpi);
    make_board();
    equip();
    process_->joins_group(rank_);
    return std::move(group_);
  }

 private:
  // A rank that cannot take part says so, because the others would wait for it otherwise.
  void greet() {
    Greeting mine{.node = NodeIdentity::of_this_process(), .rank = rank_, .size = size_, .world = {}};
    std::string why_not;
    try {
      process_ = &GroupProcess::get();
      mine.build = process_->build;
      mine.settings = process_->settings_hash;
      mine.rules = process_->selection.hash_of_user_rules();
      mine.random = random_number();
      mine.world = process_->world();
      group_.reset(new Group(*process_, rank_, size_));
      nodes_.resize(greetings_.size());
      addresses_.resize(greetings_.size());
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

  // Finds out which ranks share a node.
  void place_ranks() {
    Membership& membership = group_->membership_;
    if (const int ranks = process_->settings.node_ranks; ranks > 0) {
      membership.group_by([&](int each) { return each / ranks; });
    } else {
      std::ranges::transform(greetings_, nodes_.begin(), &Greeting::node);
      membership.group(nodes_);
    }
    group_->locality_.emplace(membership, rank_);
  }
  [[nodiscard]] bool has_one_node() const { return group_->membership_.nodes() == 1; }

  void connect_nodes(Group::MakeNetwork make_mpi) {
    Networks networks;
    Addresses mine;
    const NetworkChoice choice = process_->settings.network;
    const bool is_made = run_unless_out_of_memory([&] {
      if (!process_->settings.wants_own_network()) networks[0] = make_mpi();
      if (choice != NetworkChoice::mpi) networks[1] = make_own_network(process_->settings);
      mine = {NetworkAddress::none(
                  "has no MPI: start the program with `offbeat run`, or set OFFBEAT_NETWORK=tcp"),
              NetworkAddress::none(built_without_network)};
      for (std::size_t k = 0; k < networks.size(); ++k)
        if (networks[k] != nullptr) mine[k] = networks[k]->address();
    });
    if (!is_made) mine.fill(NetworkAddress::none("has no memory left"));
    set_up_.gather(mine, addresses_.data());
    std::optional<Apart> apart;
    for (std::size_t k = 0; k < networks.size() && group_->network_ == nullptr; ++k) {
      if (choice != NetworkChoice::automatic && k != (choice == NetworkChoice::mpi ? 0 : 1)) continue;
      apart = find_apart(networks[k].get(), k, addresses_);
      if (!apart) connect(std::move(networks[k]), k);
    }
    if (apart)
      refuse(apart->rank, "the ranks are on several machines or in several containers, and " +
                              name_of_rank(apart->rank) + " " + apart->why);
  }

  void connect(std::unique_ptr<Network> network, std::size_t index) {
    NetworkKey key;
    if (getrandom(key.bytes.data(), key.bytes.size(), 0) < 0)
      std::memcpy(key.bytes.data(), &greetings_.front().random, sizeof greetings_.front().random);
    set_up_.broadcast(key);
    std::vector<NetworkAddress> addresses;
    for (const Addresses& each : addresses_) addresses.push_back(each[index]);
    if (network->needs_host()) group_->when_host_ends_ = WhenHostEnds::fail;
    group_->network_ = std::move(network);
    try {
      group_->network_->connect(set_up_, *group_->locality_, addresses, key);
    } catch (const BoardError&) {
      throw;
    } catch (const CommunicationError& error) {
      refuse(rank_, error.what());
    }
    if (process_->settings.verbose == 0 || rank_ != 0) return;
    run_unless_out_of_memory([&] {
      say("group of " + std::to_string(size_) + " ranks on " + std::to_string(group_->membership_.nodes()) +
          " nodes: messages go by " + group_->network_->name());
    });
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
      const ObservedGroup seen = observed_group(*process_, greetings_, rank_, has_one_node());
      group.counters_->identity = seen.identity;
      process_->counters.join(seen.world.run, seen.world.rank, seen.world.ranks, "");
      if (process_->settings.counters && process_->settings.stall_s > 0) answer_where_this_thread_is();
      if (observer_ != nullptr) group.log_ = observer_->joins(seen);
      group.renew(group.plans_of_begun_);
      group.plans_of_runs_ = group.plans_of_begun_;
      if (!has_one_node()) {
        board.serve(std::make_unique<NetworkClient>(*group.network_, *group.locality_));
      } else {
        group.rings_ = std::make_unique<Messages>(board);
      }
      for (int k = 0; k < board.stages(); ++k) {
        Board& stage = board.stage(k).board;
        auto& transport = group.transports_[static_cast<std::size_t>(k)];
        if (has_one_node())
          transport = std::make_unique<BoardTransport>(Patience{});
        else
          transport = std::make_unique<NetworkTransport>(*group.network_, *group.locality_, k * most_lanes);
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
  std::vector<int> numbers_;          // 0, 1, 2 ...
  std::vector<Addresses> addresses_;  // of all ranks
  std::vector<NodeIdentity> nodes_;
};

std::unique_ptr<Group> Group::make(int rank, int size, const Exchange& exchange, GroupObserver* observer,
                                   MakeNetwork make_mpi) {
  if (size > 1) return GroupMaker(rank, size, exchange, observer).make(make_mpi);
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
    // that does.
    if (mine.network_ != nullptr && mine.network_->needs_host()) static_cast<void>(group.release());
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
    const bool has_failed = mine.board_->board().broken().load(std::memory_order_acquire) != 0;
    if (mine.network_ != nullptr) mine.network_->leave(has_failed);
    mine.board_->leave();
  }
}

}  // namespace offbeat
