// SPDX-License-Identifier: BSD-3-Clause
#include "mpi/host/watch.hpp"

#include <time.h>

#include <cmath>

#include "base/background_thread.hpp"
#include "base/error.hpp"
#include "base/log.hpp"

namespace offbeat {
namespace {

constexpr std::int64_t being_changed = -1;

std::int64_t now_ns() {
  timespec now{};
  clock_gettime(CLOCK_MONOTONIC, &now);
  return static_cast<std::int64_t>(now.tv_sec) * 1'000'000'000 + now.tv_nsec;
}

std::string seconds_text(std::int64_t ns) {
  return std::to_string(std::lround(static_cast<double>(ns) * 1e-9)) + " s";
}

// The time limit in seconds, set by the first Watch. It comes from a setting, so all of the process share it.
double watched_after_s = 0;

}  // namespace

Watch::Slot Watch::watched[slots];

Watch::Watch(double after_s, MakeLine line, const void* state) {
  if (after_s <= 0) return;
  static std::atomic<bool> is_started{false};
  if (!is_started.load(std::memory_order_relaxed) && !is_started.exchange(true)) {
    watched_after_s = after_s;
    start_background_thread(watch_slots);
  }
  since_ns_ = now_ns();
  for (Slot& slot : watched) {
    std::int64_t free = 0;
    if (!slot.since_ns.compare_exchange_strong(free, being_changed, std::memory_order_acquire)) continue;
    slot.line = line;
    slot.state = state;
    slot.is_printed.store(false, std::memory_order_relaxed);
    slot.since_ns.store(since_ns_, std::memory_order_release);
    slot_ = &slot;
    return;
  }
}

Watch::~Watch() {
  if (slot_ == nullptr) return;
  // The thread may be reading this object's state. It then holds the slot, but only while it makes a line.
  std::int64_t mine = since_ns_;
  while (!slot_->since_ns.compare_exchange_weak(mine, 0, std::memory_order_acq_rel)) mine = since_ns_;
}

std::string Watch::waited_if_reported() const {
  return slot_ != nullptr && slot_->is_printed.load(std::memory_order_relaxed)
             ? seconds_text(now_ns() - since_ns_)
             : std::string();
}

void* Watch::watch_slots(void*) {
  const double pause_s = watched_after_s / 8;
  const timespec pause{static_cast<time_t>(pause_s),
                       static_cast<long>((pause_s - std::floor(pause_s)) * 1e9)};
  for (;;) {
    nanosleep(&pause, nullptr);
    for (Slot& slot : watched) {
      std::int64_t since = slot.since_ns.load(std::memory_order_relaxed);
      if (since <= 0 || slot.is_printed.load(std::memory_order_relaxed)) continue;
      const std::int64_t waited = now_ns() - since;
      if (static_cast<double>(waited) * 1e-9 <= watched_after_s) continue;
      if (!slot.since_ns.compare_exchange_strong(since, being_changed, std::memory_order_acquire)) continue;
      slot.is_printed.store(true, std::memory_order_relaxed);
      run_unless_out_of_memory([&] {
        if (const std::string line = slot.line(slot.state, seconds_text(waited)); !line.empty()) say(line);
      });
      slot.since_ns.store(since, std::memory_order_release);
    }
  }
  return nullptr;
}

}  // namespace offbeat
