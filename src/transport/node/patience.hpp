// SPDX-License-Identifier: BSD-3-Clause
// How a rank waits for a word of another: spin, then give the core away, then sleep.
//
// A core of its own: spin; the other rank is a cache line transfer away. Ranks that share cores: the one we wait for may need
// ours, so yield almost at once, and sleep when the wait gets long.
#pragma once

#include <sched.h>
#include <time.h>

#include <cstdint>

#if defined(__x86_64__)
#include <immintrin.h>
#endif

namespace offbeat {

inline void relax() {
#if defined(__x86_64__)
  _mm_pause();
#elif defined(__aarch64__)
  asm volatile("yield");
#endif
}

// Called from time to time while waiting, so that the host MPI goes on with the program's other messages.
struct Progress {
  void (*call)(void* state) = nullptr;
  void* state = nullptr;
};

struct Patience {
  bool shares_cores = false;
  Progress progress{};

  // One wait; make a new one for each thing waited for.
  class Wait {
   public:
    explicit Wait(const Patience& patience) : patience_(patience) {}
    void pause() {
      ++pauses_;
      if (pauses_ <= (patience_.shares_cores ? spins_when_sharing : spins_when_alone)) {
        relax();
      } else {
        pause_long();
      }
    }

   private:
    static constexpr std::uint32_t spins_when_sharing = 16;
    static constexpr std::uint32_t spins_when_alone = 4000;   // some 100 us
    static constexpr std::uint32_t yields_before_sleep = 4000;  // some ms
    static constexpr std::uint32_t progress_interval = 256;

    void pause_long() {
      if (patience_.progress.call != nullptr && pauses_ % progress_interval == 0) {
        patience_.progress.call(patience_.progress.state);
      }
      if (!patience_.shares_cores) {
        relax();
      } else if (pauses_ < yields_before_sleep) {
        sched_yield();
      } else {
        const timespec nap{0, 50'000};
        nanosleep(&nap, nullptr);
      }
    }
    const Patience& patience_;
    std::uint32_t pauses_ = 0;
  };
};

}  // namespace offbeat
