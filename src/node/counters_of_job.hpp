// SPDX-License-Identifier: BSD-3-Clause
// Finds the counters of the other processes of a job on this node.
#pragma once

#include <utility>
#include <vector>

#include "node/call_counters.hpp"
#include "node/shared_memory.hpp"

namespace offbeat {

// The counters of one process. They stay readable after it has ended.
class MappedCounters {
 public:
  explicit MappedCounters(SharedMemory memory) : memory_(std::move(memory)) {}
  [[nodiscard]] CounterHeader& header() const { return *static_cast<CounterHeader*>(memory_.data()); }
  // Calls `use` with the counters of each communicator.
  template <class Use>
  void for_each(Use&& use) const {
    for (std::uint32_t k = 0; k < header().blocks && k < CounterFile::most_blocks; ++k) {
      auto& block = *reinterpret_cast<CommunicatorCounters*>(static_cast<std::byte*>(memory_.data()) +
                                                             (k + 1) * counter_block_bytes);
      if (block.state.load(std::memory_order_acquire) != CommunicatorCounters::free) use(block);
    }
  }

 private:
  SharedMemory memory_;
};

// Returns the counters of a process of this user on this node; none, or one.
[[nodiscard]] std::vector<MappedCounters> counters_of_process(pid_t pid);
// Returns the counters of all processes of this user on this node that belong to `job`, once each. It reads
// /proc, which takes milliseconds. A job of 0 is unknown; then this returns those of this process only.
[[nodiscard]] std::vector<MappedCounters> counters_of_job(std::uint64_t job);

}  // namespace offbeat
