// SPDX-License-Identifier: BSD-3-Clause
#include "mpi/communicators/team_network.hpp"

#include <sys/random.h>

#include <algorithm>
#include <atomic>
#include <cstring>
#include <new>
#include <string>

#include "base/error.hpp"
#include "base/log.hpp"

namespace offbeat {
namespace {

// Prints this only once, because a program may make many communicators.
void say_once_why_no_network(const MpiSetUp& set_up, const std::string& why) {
  static std::atomic<bool> is_said{false};
  if (set_up.rank != 0 || is_said.exchange(true)) return;
  say("OFFBEAT_NETWORK: " + why + ": non-blocking collectives between nodes stay with the host MPI");
}

}  // namespace

std::shared_ptr<TeamNetwork> TeamNetwork::make(MpiSetUp& set_up, const Settings& settings,
                                               const Locality& locality,
                                               const std::vector<int>& world_ranks) {
  std::shared_ptr<TeamNetwork> made;
  std::vector<NetworkAddress> addresses;
  NetworkAddress mine = NetworkAddress::none(built_without_network);
  NetworkKey key;
  const bool is_ready = run_unless_out_of_memory([&] {
    addresses.resize(world_ranks.size());
    auto network = make_own_network(settings);
    if (network == nullptr) return;
    made = std::make_shared<TeamNetwork>(std::move(network));
    mine = made->network->address();
  });
  if (!set_up.all(is_ready)) return nullptr;
  set_up.gather(mine, addresses.data());
  const bool has_key =
      getrandom(key.bytes.data(), key.bytes.size(), 0) == static_cast<ssize_t>(key.bytes.size());
  set_up.broadcast(key);
  const auto without = std::ranges::find(addresses, false, &NetworkAddress::is_usable);
  if (without != addresses.end()) {
    run_unless_out_of_memory([&] {
      const int rank = world_ranks[static_cast<std::size_t>(without - addresses.begin())];
      say_once_why_no_network(
          set_up, "rank " + std::to_string(rank) + " of MPI_COMM_WORLD " + without->why_not.data());
    });
    return nullptr;
  }
  if (!set_up.all(has_key)) return nullptr;
  std::uint64_t id = 0;
  std::memcpy(&id, key.bytes.data(), sizeof id);
  made->id_ = id;
  made->network->share(world_ranks, " of MPI_COMM_WORLD");
  try {
    made->network->connect(set_up, locality, addresses, key);
  } catch (const BoardError& error) {  // equal on all ranks
    run_unless_out_of_memory([&] { say_once_why_no_network(set_up, error.what()); });
    return nullptr;
  } catch (const std::bad_alloc&) {  // there is no memory for this error
    return nullptr;
  }
  return made;
}

}  // namespace offbeat
