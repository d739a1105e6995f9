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

// Told when a wait gets suspiciously long, and again when it ends after all.
struct Stall {
  double after_s = 0;  // 0: never
  void (*call)(void* state, double waited_s, bool over) = nullptr;
  void* state = nullptr;
};

struct Patience {
  bool shares_cores = false;
  Progress progress{};
  Stall stall{};

  // One wait; make a new one for each thing waited for.
  class Wait {
   public:
    explicit Wait(const Patience& patience) : patience_(patience) {}
    Wait(const Wait&) = delete;
    Wait& operator=(const Wait&) = delete;
    ~Wait() {
      if (stalled_) patience_.stall.call(patience_.stall.state, waited_s(), true);
    }
    void pause() {
      ++pauses_;
      if (pauses_ <= (patience_.shares_cores ? spins_when_sharing : spins_when_alone)) {
        relax();
      } else {
        pause_long();
      }
    }

   private:
    static constexpr std::uint64_t spins_when_sharing = 16;
    static constexpr std::uint64_t spins_when_alone = 4000;   // some 100 us
    static constexpr std::uint64_t yields_before_sleep = 4000;  // some ms
    static constexpr std::uint64_t progress_interval = 64;
    static constexpr std::uint64_t yield_interval = 32;

    static double now_s() {
      timespec now{};
      clock_gettime(CLOCK_MONOTONIC, &now);
      return static_cast<double>(now.tv_sec) + 1e-9 * static_cast<double>(now.tv_nsec);
    }
    [[nodiscard]] double waited_s() const { return now_s() - since_s_; }

    void watch() {
      if (since_s_ == 0) {
        since_s_ = now_s();
      } else if (!stalled_ && waited_s() > patience_.stall.after_s) {
        stalled_ = true;
        patience_.stall.call(patience_.stall.state, waited_s(), false);
      }
    }

    void pause_long() {
      if (patience_.stall.after_s > 0 && pauses_ % progress_interval == 0) watch();
      if (patience_.progress.call != nullptr && pauses_ % progress_interval == 0) {
        patience_.progress.call(patience_.progress.state);
      }
      if (!patience_.shares_cores) {
        // We may be wrong about the cores: launchers do not tell everything.
        if (pauses_ % yield_interval == 0) sched_yield();
        relax();
      } else if (pauses_ < yields_before_sleep) {
        sched_yield();
      } else {
        if (patience_.progress.call != nullptr) patience_.progress.call(patience_.progress.state);
        const timespec nap{0, 50'000};
        nanosleep(&nap, nullptr);
      }
    }
    const Patience& patience_;
    std::uint64_t pauses_ = 0;
    double since_s_ = 0;  // 0: not yet long
    bool stalled_ = false;
  };
};

}  // namespace offbeat
