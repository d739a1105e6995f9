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

// Sets where the ranks are in MPI_COMM_WORLD. Returns the first rank that the MPI does not connect with rank
// 0, or the number of ranks.
int first_not_connected(const std::vector<Greeting>& all, std::vector<int>& world_ranks) {
  for (std::size_t rank = 0; rank < all.size(); ++rank) {
    const NetworkAddress& each = all[rank].address;
    const auto before = std::span(world_ranks).first(rank);
    if (each.state != NetworkAddress::State::ready || each.ranks != all.front().address.ranks ||
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
    : OperationsOwner(rank, size, false),
      process_(process),
      membership_(size),
      fork_generation_(GroupProcess::fork_generation()) {}

std::unique_ptr<Group> Group::make(int rank, int size, const Exchange& exchange, GroupObserver* observer,
                                   MakeNetwork make_network) {
  if (size > 1) return make_on_board(rank, size, exchange, observer, make_network);
  GroupProcess& process = GroupProcess::get();
  std::unique_ptr<Group> group(new Group(process, rank, size));
  const GroupWorld world = process.world();
  if (observer != nullptr && world.run != 0)
    group->log_ = observer->joins(
        {.world = world, .identity = random_number(), .rank = rank, .world_ranks = {world.rank}});
  process.joins_group(rank);
  return group;
}

// A rank that cannot take part says so, because the others would wait for it otherwise.
std::unique_ptr<Group> Group::make_on_board(int rank, int size, const Exchange& exchange,
                                            GroupObserver* observer, MakeNetwork make_network) {
  std::vector<Greeting> greetings(static_cast<std::size_t>(size));
  CallbackSetUp set_up(rank, size, exchange);
  Greeting mine{
      .node = NodeIdentity::of_this_process(), .rank = rank, .size = size, .world = {}, .address = {}};
  GroupProcess* process = nullptr;
  std::unique_ptr<Group> group;
  std::vector<int> numbers;
  std::vector<int> world_ranks;
  std::vector<NodeIdentity> nodes;
  std::string why_not;
  try {
    process = &GroupProcess::get();
    mine.build = process->build;
    mine.settings = process->settings_hash;
    mine.rules = process->selection.hash_of_user_rules();
    mine.random = random_number();
    mine.world = process->world();
    group.reset(new Group(*process, rank, size));
    group->network_ = make_network();
    if (group->network_ != nullptr) mine.address = group->network_->address();
    nodes.resize(static_cast<std::size_t>(size));
    world_ranks.resize(static_cast<std::size_t>(size));
    numbers.resize(static_cast<std::size_t>(size));
    std::iota(numbers.begin(), numbers.end(), 0);
    mine.is_ready = 1;
  } catch (const std::exception& error) {
    why_not = error.what();
  }
  set_up.gather(mine, greetings.data());
  if (mine.is_ready == 0) refuse(rank, why_not);
  require_agreement(greetings);
  if (process->settings.window_bytes == 0) refuse(rank, "OFFBEAT_BOARD_KIB=0 leaves no shared memory");

  constexpr std::size_t widest_element = 32;
  if (process->settings.window_bytes / static_cast<std::size_t>(size) < widest_element)
    refuse(rank, "OFFBEAT_BOARD_KIB is too small for " + std::to_string(size) + " ranks");

  const int unconnected = first_not_connected(greetings, world_ranks);
  if (unconnected == size && process->settings.node_ranks > 0) {
    group->membership_.group_by([&](int each) { return each / process->settings.node_ranks; });
  } else {
    std::ranges::transform(greetings, nodes.begin(), &Greeting::node);
    group->membership_.group(nodes);
  }
  group->locality_.emplace(group->membership_, rank);
  const bool has_one_node = group->membership_.nodes() == 1;
  if (has_one_node) {
    group->network_.reset();
  } else {
    if (unconnected < size)
      refuse(
          unconnected,
          "the ranks are on several machines or in several containers, and " + name_of_rank(unconnected) +
              " " +
              std::string(why_not_connected(greetings[static_cast<std::size_t>(unconnected)].address.state)));
    group->needs_host_ = true;
    if (!group->network_->connect(set_up, *group->locality_, world_ranks, greetings.front().random))
      refuse(rank, "the MPI has no communicator, or a process no memory, left for the group");
  }

  const RankNames names{.numbers = numbers, .space = "", .everyone = "group"};
  const BoardSize board_size{process->settings.window_bytes, NodeBoard::stages_of_communicator, true,
                             has_one_node ? Messages::ring_bytes(size) : 0};
  group->board_ = NodeBoard::create(set_up, *group->locality_, names, process->settings, process->windows,
                                    board_size, why_not);
  if (group->board_ == nullptr) {
    // Only the rank that was refused knows why.
    struct Text {
      std::array<char, 256> text{};
    };
    Text text;
    why_not.copy(text.text.data(), text.text.size() - 1);
    std::vector<Text> all(static_cast<std::size_t>(size));
    set_up.gather(text, all.data());
    const auto found = std::ranges::find_if(all, [](const Text& each) { return each.text[0] != '\0'; });
    const auto refused = found == all.end() ? 0 : static_cast<int>(found - all.begin());
    refuse(refused,
           name_of_rank(refused) + ": " + (found == all.end() ? "no shared memory" : found->text.data()));
  }
  // With one stage, calls that were begun would share it with blocking calls. All ranks see the same number.
  if (group->board_->stages() == 1) refuse(0, "no memory for the stages of a group");
  // A failure here is this rank's alone, so the ranks vote afterwards.
  const bool is_made = run_unless_out_of_memory([&] {
    if (observer != nullptr) group->log_ = observer->joins(observed_group(*process, greetings, rank));
    group->plans_of_runs_ = group->plans_of_begun_ = group->current_plans();
    NodeBoard& board = *group->board_;
    if (!has_one_node) {
      board.serve(group->network_->client());
      group->messages_ = group->network_->carrier();
    } else {
      group->messages_ = std::make_unique<Messages>(board);
    }
    for (int k = 0; k < board.stages(); ++k) {
      Board& stage = board.stage(k).board;
      auto& transport = group->transports_[static_cast<std::size_t>(k)];
      transport =
          has_one_node ? std::make_unique<BoardTransport>(Patience{}) : group->network_->transport(stage, k);
      transport->use(stage);
    }
    board.board().waiters = group->transports_.front().get();
  });
  if (!set_up.all(is_made)) refuse(rank, "a rank has no memory left");
  process->joins_group(rank);
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
    return mine.in_use_ > 0 && !(mine.needs_host_ && operations_under_way.has_host_ended());
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
    if (mine.in_use_ > 0) static_cast<void>(group.release());  // messages may still come to its operations
  }
}

}  // namespace offbeat
