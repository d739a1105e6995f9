// SPDX-License-Identifier: BSD-3-Clause
// GroupProcess is what all groups of a process share.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>

#include "base/settings.hpp"
#include "base/spin_lock.hpp"
#include "groups/counts.hpp"
#include "groups/group_observer.hpp"
#include "groups/progress_thread.hpp"
#include "groups/window_budget.hpp"
#include "node/call_counters.hpp"
#include "selection/selection.hpp"

namespace offbeat {

class GroupProcess {
 public:
  // Returns the state of this process, and makes it at the first call. It is never destroyed. Throws
  // UsageError for a bad setting.
  [[nodiscard]] static GroupProcess& get();
  // Returns the same, or null before the first call of get().
  [[nodiscard]] static GroupProcess* find();

  void count(Collective collective) { calls_[index_of(collective)].fetch_add(1, std::memory_order_relaxed); }
  [[nodiscard]] std::uint64_t calls(Collective collective) const {
    return calls_[index_of(collective)].load(std::memory_order_relaxed);
  }
  void count_message(bool is_send) { (is_send ? sent_ : received_).fetch_add(1, std::memory_order_relaxed); }
  // Call this when a group is made. Rank 0 of the first one reports (OFFBEAT_REPORT) and names unknown
  // settings.
  void joins_group(int rank);

  // Returns the world of this process, if it has one. set_world() sets it unless it is set.
  [[nodiscard]] GroupWorld world() const;
  void set_world(const GroupWorld& world);

  // Returns how many forks lie between this process and the one that first used groups. A group with another
  // generation belongs to a parent process and must not be used.
  [[nodiscard]] static std::uint64_t fork_generation();

  const Settings settings;
  const std::uint64_t settings_hash = settings.agreement();
  Selection selection{HostMpi::other, settings.window_bytes, Adapt::off};
  const std::uint64_t build;  // equal on all ranks that may share a board
  WindowBudget windows{settings.memory_bytes};
  CounterFile& counters = CounterFile::of_process(settings.counters);
  const ProgressThread progress{settings.progress_cpus};

 private:
  GroupProcess();
  void report() const;

  std::array<std::atomic<std::uint64_t>, collectives.size()> calls_{};
  std::atomic<std::uint64_t> sent_{0};
  std::atomic<std::uint64_t> received_{0};
  std::atomic<bool> has_joined_{false};
  mutable SpinLock world_lock_;
  GroupWorld world_;
};

}  // namespace offbeat
