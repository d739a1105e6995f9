// SPDX-License-Identifier: BSD-3-Clause
// TeamNetwork carries the messages of non-blocking collectives between the nodes of a team, if the user asks
// for it (OFFBEAT_NETWORK=tcp or libfabric). A thread of offbeat advances them while the program computes,
// and calls no MPI.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

#include "groups/own_network.hpp"
#include "mpi/communicators/set_up.hpp"

namespace offbeat {

class TeamNetwork {
 public:
  // Connects the ranks. Collective. `world_ranks` must outlive the network. Returns null, on all ranks, if a
  // rank has no memory for it, or no network, which one line says.
  [[nodiscard]] static std::shared_ptr<TeamNetwork> make(MpiSetUp& set_up, const Settings& settings,
                                                         const Locality& locality,
                                                         const std::vector<int>& world_ranks);
  explicit TeamNetwork(std::unique_ptr<OwnNetwork> made) : network(std::move(made)) {}
  TeamNetwork(const TeamNetwork&) = delete;
  TeamNetwork& operator=(const TeamNetwork&) = delete;
  ~TeamNetwork() { network->leave(is_spoilt()); }

  // Returns a number that is equal on all ranks, and different for each network of these ranks.
  [[nodiscard]] std::uint64_t id() const { return id_; }
  // Keeps other communicators from using the network, because a communicator has failed.
  void spoil() noexcept { is_spoilt_.store(true, std::memory_order_relaxed); }
  [[nodiscard]] bool is_spoilt() const { return is_spoilt_.load(std::memory_order_relaxed); }

  const std::unique_ptr<OwnNetwork> network;

 private:
  std::uint64_t id_ = 0;
  std::atomic<bool> is_spoilt_{false};
};

}  // namespace offbeat
