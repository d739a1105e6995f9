// SPDX-License-Identifier: BSD-3-Clause
// Clock synchronisation across hosts.
//
// Source: HCA3 in S. Hunold and A. Carpen-Amarie, "Hierarchical clock synchronization in MPI", CLUSTER 2018.
//
// One rank of each host takes part. In each of log2(hosts) rounds, hosts that know the global time serve
// hosts that do not:
//
//  8 hosts    0 -> 4    0 -> 2, 4 -> 6    0 -> 1, 2 -> 3, 4 -> 5, 6 -> 7
//
// The server answers pings with the global time, so models compose on the way. The client fits a line through
// the answers. The other ranks of a host copy its model, because their clock is the same.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "clock/clock.hpp"

namespace offbeat::clock {

// The messages that the synchronisation needs. Tests implement this with made-up clocks and latencies.
// Messages between two ranks arrive in order. Errors are exceptions.
class Messenger {
 public:
  virtual ~Messenger() = default;
  [[nodiscard]] virtual int rank() const = 0;
  [[nodiscard]] virtual int ranks() const = 0;
  virtual void send(int peer, std::span<const std::byte> message) = 0;
  virtual void receive(int peer, std::span<std::byte> message) = 0;
  // Returns the time of this rank's own clock.
  [[nodiscard]] virtual Nanoseconds now() = 0;
};

enum class Method {
  hca3,    // offset and slope, in log2(hosts) rounds
  offset,  // offset only; the hosts ask rank 0 one after the other
};

// A client measures until it has reached both `least_pings` and `least_ns`.
struct MeasuringEffort {
  int least_pings = 16;
  Nanoseconds least_ns = 4'000'000;
  int check_pings = 10;  // pings that measure the residual error
};

// Returns a number that is equal for ranks that share a clock. It is made from the kernel's boot id and the
// clock offset of the container, if there is one.
[[nodiscard]] std::uint64_t host_of_this_process();

// Returns this rank's model. All ranks must call this. `hosts` has the host_of_this_process() of each rank
// and must be equal on all ranks.
[[nodiscard]] Model synchronise(Messenger& messenger, std::span<const std::uint64_t> hosts,
                                Method method = Method::hca3, MeasuringEffort effort = {});

}  // namespace offbeat::clock
