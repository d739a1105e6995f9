// SPDX-License-Identifier: BSD-3-Clause
#include "mpi/communicators/agreement.hpp"

#include <algorithm>
#include <array>
#include <atomic>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "base/error.hpp"
#include "base/line_of_node.hpp"
#include "base/log.hpp"
#include "mpi/communicators/set_up.hpp"
#include "mpi/process/runtime.hpp"
#include "node/device_memory.hpp"

namespace offbeat {
namespace {

// Calls calls(first, ranks) for batches of the communicator's ranks, given as ranks in MPI_COMM_WORLD.
template <class Calls>
void for_world_ranks(const Host& host, MPI_Comm communicator, int size, Calls&& calls) {
  constexpr int at_once = 64;
  std::array<int, at_once> local;
  std::array<int, at_once> in_world;
  MPI_Group group;
  MPI_Group world;
  host.Comm_group(communicator, &group);
  host.Comm_group(MPI_COMM_WORLD, &world);
  for (int first = 0; first < size; first += at_once) {
    const int count = std::min(at_once, size - first);
    for (int k = 0; k < count; ++k) local[static_cast<std::size_t>(k)] = first + k;
    host.Group_translate_ranks(group, count, local.data(), world, in_world.data());
    calls(first, std::span<const int>(in_world).first(static_cast<std::size_t>(count)));
  }
  host.Group_free(&world);
  host.Group_free(&group);
}

// Rank 0's proposal to the others. It begins with `build` and has one size in every version of offbeat. So
// ranks of another version understand it. They answer with has::memory and has::same_build only.
struct Invitation {
  std::uint64_t build = 0;        // build_identity()
  std::uint64_t settings = 0;     // a hash of the settings that must be equal
  std::uint64_t team = 0;         // the team's serial number
  std::uint64_t is_new_team = 0;  // 1 if all ranks must make the team now
  std::uint64_t place = 0;
  std::uint64_t messages = 0;             // the number of the private communicator to share; 0 for none
  std::uint64_t new_messages_number = 0;  // the number for a private communicator that may be made
  std::uint64_t rules = 0;                // a hash of the user's rules
};
static_assert(sizeof(Invitation) == 64);

// A rank's answer to an invitation, bit by bit.
namespace has {
constexpr std::uint64_t memory = 1;  // means this in every version; so does same_build
constexpr std::uint64_t same_build = std::uint64_t{1} << 63;
constexpr std::uint64_t same_settings = 2;
constexpr std::uint64_t team = 4;
constexpr std::uint64_t place = 8;
constexpr std::uint64_t board = 16;
constexpr std::uint64_t no_board = 32;
constexpr std::uint64_t messages = 64;
constexpr std::uint64_t no_level_zero = 128;
constexpr std::uint64_t same_rules = 256;
}  // namespace has

// Prints this only once, because a program may make many communicators.
void say_once_that_ranks_differ(std::string_view what, int ranks) {
  static std::atomic<bool> is_said{false};
  if (is_said.exchange(true)) return;
  run_unless_out_of_memory([&] {
    say_once_on_node("ranks have different " + std::string(what) +
                     ": the host MPI serves this communicator of " + std::to_string(ranks) +
                     " ranks and others of these ranks");
  });
}

void say_once_that_messages_are_cut(std::size_t longest) {
  static std::atomic<bool> is_said{false};
  if (longest >= longest_message || is_said.exchange(true)) return;
  run_unless_out_of_memory([&] {
    say("messages between nodes are at most " + std::to_string(longest) +
        " B, because this MPI's TCP sends longer ones one way at a time");
  });
}

}  // namespace

std::string_view why_never_served(const Host& host, MPI_Comm communicator) {
  int inter = 0;
  int size = 1;
  host.Comm_test_inter(communicator, &inter);
  if (inter != 0) return inter_communicator_reason;
  host.Comm_size(communicator, &size);
  if (size == 1) return only_one_rank_reason;
  // Processes that were spawned, or that connected, may run without offbeat. Each rank sees some ranks that
  // are not in its own MPI_COMM_WORLD.
  bool is_foreign = false;
  for_world_ranks(host, communicator, size, [&](int, std::span<const int> ranks) {
    is_foreign = is_foreign || std::ranges::find(ranks, MPI_UNDEFINED) != ranks.end();
  });
  return is_foreign ? "ranks of several MPI_COMM_WORLDs" : "";
}

std::optional<Agreement> agree(MpiSetUp& set_up, Runtime& process, const BoardSize* board_size) {
  std::vector<int> world_ranks;
  const bool is_ready = board_size != nullptr && run_unless_out_of_memory([&] {
                          world_ranks.resize(static_cast<std::size_t>(set_up.size));
                          process.teams.reserve();
                          for_world_ranks(process.host, set_up.communicator(), set_up.size,
                                          [&](int first, std::span<const int> some) {
                                            std::ranges::copy(some, world_ranks.begin() + first);
                                          });
                        });

  bool is_new_team = false;
  auto which = Team::PlaceKind::free;
  // There are at most two passes unless memory is short, because a new team and a place that was never used
  // suit every rank.
  for (;;) {
    std::shared_ptr<Team> team;
    std::shared_ptr<Team::CommunicatorPlace> place;
    std::shared_ptr<PrivateCommunicator> shared;
    std::shared_ptr<const TeamPlans> plans;
    Invitation invitation{.build = process.build,
                          .settings = process.settings_hash,
                          .rules = process.selection.hash_of_user_rules()};
    const auto look_for_team = [&] {
      team = invitation.is_new_team != 0 ? std::make_shared<Team>(world_ranks, set_up.rank, invitation.team)
                                         : process.teams.find(world_ranks);
      if (team == nullptr || invitation.is_new_team != 0) return;
      plans = team->plans(process.selection);
      shared = team->messages();
    };

    bool has_memory = is_ready;
    if (set_up.rank == 0) {
      has_memory = has_memory && run_unless_out_of_memory([&] {
                     if (!is_new_team) look_for_team();
                     if (team == nullptr) {
                       invitation.is_new_team = 1;
                       invitation.team = process.teams.next_serial();
                       look_for_team();
                     }
                     place = Team::choose_place(team, which, *board_size);
                     invitation.team = team->serial_number();
                     invitation.place = static_cast<std::uint64_t>(place->index());
                     invitation.messages = shared != nullptr ? shared->id() : 0;
                     invitation.new_messages_number = process.teams.next_serial();
                   });
    }
    set_up.broadcast(invitation);
    const bool is_same_build = invitation.build == process.build;
    if (set_up.rank != 0 && is_same_build) {
      has_memory = has_memory && run_unless_out_of_memory([&] {
                     look_for_team();
                     if (team == nullptr) return;
                     place = Team::take_place(team, static_cast<int>(invitation.place), *board_size);
                   });
    }

    std::uint64_t mine_to_say = 0;
    const auto say_if = [&](bool holds, std::uint64_t what) { mine_to_say |= holds ? what : 0; };
    say_if(has_memory, has::memory);
    say_if(is_same_build, has::same_build);
    say_if(invitation.settings == process.settings_hash, has::same_settings);
    say_if(invitation.rules == process.selection.hash_of_user_rules(), has::same_rules);
    say_if(!devices::has_level_zero(), has::no_level_zero);
    say_if(team != nullptr && team->serial_number() == invitation.team, has::team);
    say_if(place != nullptr, has::place);
    say_if(place != nullptr && place->board != nullptr, has::board);
    say_if(place != nullptr && place->board == nullptr, has::no_board);
    say_if(shared != nullptr && shared->id() == invitation.messages, has::messages);
    const std::uint64_t all = set_up.unanimous(mine_to_say);

    if ((all & has::memory) == 0) return {};
    // The build is checked first, because ranks of another version do not answer about settings and rules.
    struct RankDifference {
      std::uint64_t bit;
      std::string_view what;
      std::string_view why_native;
    };
    static constexpr RankDifference differences[] = {
        {has::same_build, "builds of offbeat", "the ranks run different builds of offbeat"},
        {has::same_settings, "OFFBEAT_ settings", "the ranks have different settings"},
        {has::same_rules, "rules or machines (OFFBEAT_RULES, OFFBEAT_MACHINE)",
         "the ranks have different rules or machines"},
    };
    const auto* const found =
        std::ranges::find_if(differences, [&](const RankDifference& each) { return (all & each.bit) == 0; });
    if (found != std::end(differences)) {
      if (set_up.rank == 0) say_once_that_ranks_differ(found->what, set_up.size);
      return Agreement{.why_native = found->why_native};
    }
    const bool is_for_host = process.settings.gpu == GpuPolicy::native;
    if (is_for_host || (all & has::no_level_zero) == 0) {
      return Agreement{.why_native = is_for_host ? "OFFBEAT_GPU=native" : "a rank uses Level Zero"};
    }
    is_new_team = (all & has::team) == 0;
    which = (all & has::place) == 0 ? Team::PlaceKind::never_used : Team::PlaceKind::free;
    if (is_new_team || which == Team::PlaceKind::never_used) continue;

    if (invitation.is_new_team != 0) {
      team->find_nodes(set_up, process.settings);
      if (process.settings.verbose > 0 && process.host.rank_in(MPI_COMM_WORLD) == 0)
        say_once_that_messages_are_cut(team->longest_message_between_nodes());
      if (!set_up.all(run_unless_out_of_memory([&] { plans = team->plans(process.selection); }))) return {};
      process.teams.add(team);
    }
    if (process.settings.gpu == GpuPolicy::node && team->locality().membership.nodes() > 1)
      return Agreement{.why_native = "OFFBEAT_GPU=node, and there are several nodes"};
    if ((all & (has::board | has::no_board)) == 0) place->board.reset();
    if ((all & has::messages) == 0) shared.reset();
    return Agreement{
        {}, std::move(place), std::move(plans), std::move(shared), invitation.new_messages_number};
  }
}

}  // namespace offbeat
