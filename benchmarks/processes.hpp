// SPDX-License-Identifier: BSD-3-Clause
// What the benchmarks of the board share: processes that measure together, without an MPI.
#pragma once

#include <sched.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <time.h>

#include <algorithm>
#include <atomic>
#include <csignal>
#include <cstddef>
#include <new>
#include <vector>

#include "node/patience.hpp"
#include "support/board_only.hpp"

namespace offbeat {

inline double now_us() {
  timespec now{};
  clock_gettime(CLOCK_MONOTONIC, &now);
  return static_cast<double>(now.tv_sec) * 1e6 + static_cast<double>(now.tv_nsec) * 1e-3;
}

// Memory that children share with their parent; zero.
template <class T>
T* shared(std::size_t count) {
  void* data = mmap(nullptr, count * sizeof(T), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  if (data == MAP_FAILED) throw std::bad_alloc();
  return static_cast<T*>(data);
}

inline void stay_on(int core) {
  cpu_set_t one;
  CPU_ZERO(&one);
  CPU_SET(static_cast<unsigned>(core), &one);
  sched_setaffinity(0, sizeof one, &one);
}

// For a child: or it would wait for ever for ranks that are gone.
inline void die_with_parent() { prctl(PR_SET_PDEATHSIG, SIGKILL); }

inline double median(std::vector<double> values) {
  const auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
  std::nth_element(values.begin(), middle, values.end());
  return *middle;
}

// Ranks meet here between measurements.
struct Barrier {
  std::atomic<int> arrived;
  std::atomic<int> generation;

  void wait(int ranks, bool yields) {
    const int mine = generation.load();
    if (arrived.fetch_add(1) == ranks - 1) {
      arrived.store(0);
      generation.store(mine + 1);
    } else {
      while (generation.load() == mine) yields ? static_cast<void>(sched_yield()) : relax();
    }
  }
};

}  // namespace offbeat
