// SPDX-License-Identifier: BSD-3-Clause
#include "mpi/host/watch.hpp"

#include <time.h>

#include <algorithm>

#include "base/background_thread.hpp"
#include "base/error.hpp"
#include "base/log.hpp"
#include "base/time.hpp"

namespace offbeat {
namespace {

constexpr std::int64_t being_changed = -1;

// The time limit. It comes from a setting, so all of the process share it.
std::atomic<std::int64_t> watched_after_ns{0};
std::atomic<bool> thread_runs{false};

}  // namespace

Watch::Slot Watch::watched[slots];

Watch::Watch(long after_s, MakeLine line, const void* state) {
  if (after_s <= 0) return;
  watched_after_ns.store(after_s * ns_per_s, std::memory_order_relaxed);
  since_ns_ = monotonic_ns();
  for (Slot& slot : watched) {
    std::int64_t free = 0;
    if (!slot.since_ns.compare_exchange_strong(free, being_changed, std::memory_order_acquire)) continue;
    slot.line = line;
    slot.state = state;
    slot.is_printed.store(false, std::memory_order_relaxed);
    // In one total order with the thread's last look (are_all_free), so that one of the two sees the other.
    slot.since_ns.store(since_ns_, std::memory_order_seq_cst);
    slot_ = &slot;
    if (!thread_runs.load(std::memory_order_seq_cst) && !thread_runs.exchange(true))
      start_background_thread(watch_slots);
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
  const std::int64_t limit_ns = watched_after_ns.load(std::memory_order_relaxed);
  const std::int64_t pause_ns = limit_ns / 8;
  const timespec pause{static_cast<time_t>(pause_ns / ns_per_s), static_cast<long>(pause_ns % ns_per_s)};
  const auto are_all_free = [] {
    return std::ranges::all_of(watched, [](const Slot& slot) { return slot.since_ns.load() == 0; });
  };
  for (;;) {
    nanosleep(&pause, nullptr);
    // A process whose main thread has left by pthread_exit() ends with its last thread.
    if (are_all_free()) {
      thread_runs.store(false, std::memory_order_seq_cst);
      if (are_all_free() || thread_runs.exchange(true)) return nullptr;
    }
    for (Slot& slot : watched) {
      std::int64_t since = slot.since_ns.load(std::memory_order_relaxed);
      if (since <= 0 || slot.is_printed.load(std::memory_order_relaxed)) continue;
      const std::int64_t waited = monotonic_ns() - since;
      if (waited <= limit_ns) continue;
      if (!slot.since_ns.compare_exchange_strong(since, being_changed, std::memory_order_acquire)) continue;
      slot.is_printed.store(true, std::memory_order_relaxed);
      run_unless_out_of_memory([&] {
        if (const std::string line = slot.line(slot.state, seconds_text(waited)); !line.empty()) say(line);
      });
      slot.since_ns.store(since, std::memory_order_release);
    }
  }
}

}  // namespace offbeat
