// SPDX-License-Identifier: BSD-3-Clause
// Clock synchronisation across hosts.
//
// HCA3 after S. Hunold and A. Carpen-Amarie, "Hierarchical clock synchronization in MPI", CLUSTER 2018. One
// rank of each host takes part. In round r of log2(hosts) a host that knows the global time serves one that
// does not:
//
//   8 hosts    0 -> 4    0 -> 2, 4 -> 6    0 -> 1, 2 -> 3, 4 -> 5, 6 -> 7
//
// The server answers pings with global time, which composes the models on the way, and the other fits a line
// through what it heard. The models of a host's other ranks are copies, because their clock is the same.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "clock/clock.hpp"

namespace offbeat::clock {

// The messages that the synchronisation needs; tests plant clocks and latencies here. Messages between two
// ranks arrive in order. Errors are exceptions.
class Network {
 public:
  virtual ~Network() = default;
  [[nodiscard]] virtual int rank() const = 0;
  [[nodiscard]] virtual int ranks() const = 0;
  virtual void send(int peer, std::span<const std::byte> message) = 0;
  virtual void receive(int peer, std::span<std::byte> message) = 0;
  // This rank's own clock.
  [[nodiscard]] virtual Nanoseconds now() = 0;
};

enum class Method {
  hca3,    // offset and slope, log2(hosts) rounds
  offset,  // offset only, each host with that of rank 0 in turn
};

// How long two hosts measure: until both of the first are reached.
struct Effort {
  int least_pings = 16;
  Nanoseconds least_ns = 4'000'000;
  int check_pings = 10;  // for the residual error
};

// Equal for ranks that share a clock: the boot of the kernel, and the offset of the container's clock if it
// has one.
[[nodiscard]] std::uint64_t host_of_this_process();

// Collective. `hosts`: for each rank, what tells clocks apart; equal on all ranks.
[[nodiscard]] Model synchronise(Network& network, std::span<const std::uint64_t> hosts,
                                Method method = Method::hca3, Effort effort = {});

}  // namespace offbeat::clock
