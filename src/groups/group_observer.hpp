// SPDX-License-Identifier: BSD-3-Clause
// A GroupObserver sees the calls of collectives in groups. The trace implements it (capi/group_trace.hpp).
#pragma once

#include <cstdint>
#include <vector>

#include "base/collective.hpp"
#include "groups/call_arguments.hpp"

namespace offbeat {

// This process's place in its world, which is for groups what MPI_COMM_WORLD is for MPI. The world is the
// first group of several ranks that the process makes, if none of its ranks has a world yet. Traces name
// ranks by their number there. A later group may also have ranks from other worlds.
struct GroupWorld {
  std::uint64_t run = 0;  // a random number that is equal on all ranks; 0: there is no world yet
  int rank = 0;
  int ranks = 0;
  bool has_one_clock = true;  // all ranks are on one machine
};

struct ObservedGroup {
  GroupWorld world;
  std::uint64_t identity = 0;  // equal on all ranks of the group, and different for others
  int rank = 0;
  std::vector<int> world_ranks;  // -1: the rank is in another world
};

struct ObservedGroupCall {
  Collective collective{};
  bool is_blocking = true;
  bool is_in_place = false;
  int root = -1;           // -1: the collective has none
  std::int64_t count = 0;  // elements, as the call has them
  std::int64_t bytes = 0;  // that this rank contributes
  std::uint32_t width = 0;
  const char* type = "";       // its name lives as long as the process; "" for a call without elements
  const char* operation = "";  // likewise
};

// Returns what an observer sees of a call in a group of this many ranks. As in traces of MPI, `bytes` counts
// what this rank contributes.
[[nodiscard]] ObservedGroupCall observed(const CallArguments& arguments, int rank, int ranks,
                                         bool is_blocking);

// The calls of one group. begins() returns a number, which is passed to the other functions. Any thread may
// call them.
class GroupCallLog {
 public:
  virtual std::uint64_t begins(const ObservedGroupCall& call) noexcept = 0;
  // `algorithm` lives as long as the process. It is null if the call has failed.
  virtual void returns(std::uint64_t number, bool is_complete, const char* algorithm) noexcept = 0;
  virtual void completes(std::uint64_t number) noexcept = 0;

 protected:
  ~GroupCallLog() = default;
};

class GroupObserver {
 public:
  // Called when a group is made. Returns its log, which lives as long as the process, or null if the calls
  // are not wanted.
  virtual GroupCallLog* joins(const ObservedGroup& group) noexcept = 0;

 protected:
  ~GroupObserver() = default;
};

}  // namespace offbeat
