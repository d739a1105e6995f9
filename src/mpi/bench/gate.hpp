// SPDX-License-Identifier: BSD-3-Clause
//
// Where the ranks of a host meet before each call: a page of a file that all of them map.
//
// Not MPI's own barrier or broadcast: where ranks share cores a host MPI may spin in them for whole time
// slices, and then what is measured is how late the others hear of the start. Ranks on several hosts have no
// such page; they meet in MPI's barrier.
#pragma once

#include <atomic>
#include <cstdint>
#include <string>

#include "clock.hpp"

namespace offbeat::bench {

class Gate {
 public:
  // The file is there already, one page of zeros; no name: the ranks are on several hosts. Throws
  // std::runtime_error.
  Gate(const std::string& path, int rank, int ranks, bool yield);
  ~Gate();
  Gate(const Gate&) = delete;
  Gate& operator=(const Gate&) = delete;

  // Returns on every rank, once all are here, the instant that rank 0 sets by its clock: `lead_ns` from then.
  Nanoseconds next_start(Nanoseconds lead_ns);

 private:
  struct Page {
    alignas(64) std::atomic<std::uint64_t> arrived;  // ranks other than 0, over all calls
    alignas(64) std::atomic<std::uint64_t> announced;
    Nanoseconds start;
  };

  void wait_for(const std::atomic<std::uint64_t>& word, std::uint64_t value) const;

  Page* page_ = nullptr;
  const int rank_;
  const std::uint64_t others_;
  const bool yield_;
  std::uint64_t calls_ = 0;
};

}  // namespace offbeat::bench
