// SPDX-License-Identifier: BSD-3-Clause
// Gate is where the ranks of a host meet before each call: a page of a file that all of them map.
//
// MPI's own barrier and broadcast would distort the measurement: if ranks share cores, a host MPI may spin in
// them for whole time slices, and the benchmark would measure how late ranks learn of the start. Ranks on
// several hosts have no such page and meet in MPI's barrier.
#pragma once

#include <atomic>
#include <cstdint>
#include <string>

#include "mpi/bench/clock.hpp"

namespace offbeat::bench {

class Gate {
 public:
  // The file must exist and contain one page of zeros. `path` is empty if the ranks are on several hosts.
  // Throws std::runtime_error.
  Gate(const std::string& path, int rank, int ranks, bool yield);
  ~Gate();
  Gate(const Gate&) = delete;
  Gate& operator=(const Gate&) = delete;

  // Waits until all ranks are here. Returns the start time, equal on every rank. Rank 0 sets it to `lead_ns`
  // from now, by its own clock.
  Nanoseconds next_start(Nanoseconds lead_ns);

 private:
  struct Page {
    alignas(64) std::atomic<std::uint64_t> arrived;  // how often ranks other than 0 arrived, over all calls
    alignas(64) std::atomic<std::uint64_t> announced;
    Nanoseconds start;
  };

  void wait_for(const std::atomic<std::uint64_t>& word, std::uint64_t value) const;

  Page* page_ = nullptr;
  const int rank_;
  const std::uint64_t other_ranks_;
  const bool yield_;
  std::uint64_t calls_ = 0;
};

}  // namespace offbeat::bench
