// SPDX-License-Identifier: BSD-3-Clause
#include "mpi/host/watch.hpp"

#include <time.h>

#include "base/background_thread.hpp"
#include "base/error.hpp"
#include "base/log.hpp"
#include "base/time.hpp"

namespace offbeat {
namespace {

constexpr std::int64_t being_changed = -1;

// The time limit, set by the first Watch. It comes from a setting, so all of the process share it.
std::int64_t watched_after_ns = 0;

}  // namespace

Watch::Slot Watch::watched[slots];

Watch::Watch(long after_s, MakeLine line, const void* state) {
  if (after_s <= 0) return;
  static std::atomic<bool> is_started{false};
  if (!is_started.load(std::memory_order_relaxed) && !is_started.exchange(true)) {
    watched_after_ns = after_s * ns_per_s;
    start_background_thread(watch_slots);
  }
  since_ns_ = monotonic_ns();
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
             ? seconds_text(monotonic_ns() - since_ns_)
             : std::string();
}

void* Watch::watch_slots(void*) {
  const std::int64_t pause_ns = watched_after_ns / 8;
  const timespec pause{static_cast<time_t>(pause_ns / ns_per_s), static_cast<long>(pause_ns % ns_per_s)};
  for (;;) {
    nanosleep(&pause, nullptr);
    for (Slot& slot : watched) {
      std::int64_t since = slot.since_ns.load(std::memory_order_relaxed);
      if (since <= 0 || slot.is_printed.load(std::memory_order_relaxed)) continue;
      const std::int64_t waited = monotonic_ns() - since;
      if (waited <= watched_after_ns) continue;
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
