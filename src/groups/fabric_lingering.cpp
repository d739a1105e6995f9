// SPDX-License-Identifier: BSD-3-Clause
#include "groups/fabric_lingering.hpp"

#include <unistd.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <mutex>
#include <utility>

#include "base/time.hpp"

namespace offbeat {

namespace {
constexpr std::int64_t lasts_ns = ns_per_s;
}  // namespace

LingeringEndpoints& LingeringEndpoints::of_process() {
  static auto* const made = new LingeringEndpoints;  // groups may end after static objects
  return *made;
}

// A provider may need much memory for each endpoint, so add() waits if there are too many.
void LingeringEndpoints::add(std::unique_ptr<FabricEndpoint> endpoint) {
  constexpr std::size_t most = 16;
  const std::lock_guard guard(lock_);
  for (; all_.size() >= most; usleep(1000)) std::erase_if(all_, is_over);
  all_.push_back({std::move(endpoint), monotonic_ns() + lasts_ns});
}

void LingeringEndpoints::poll() {
  const std::lock_guard guard(lock_);
  std::erase_if(all_, is_over);
}

// If a signal handler called exit() in poll(), this thread holds the lock and never unlocks it.
void LingeringEndpoints::wait() {
  for (const std::int64_t until_ns = monotonic_ns() + lasts_ns; monotonic_ns() <= until_ns; usleep(1000)) {
    if (!lock_.try_lock()) continue;
    const std::lock_guard guard(lock_, std::adopt_lock);
    std::erase_if(all_, is_over);
    if (all_.empty()) return;
  }
}

void LingeringEndpoints::after_fork_in_child() {
  for (Each& each : all_) static_cast<void>(each.endpoint.release());
  all_.clear();
  lock_.unlock();
}

bool LingeringEndpoints::is_over(const Each& each) {
  std::array<fi_cq_tagged_entry, 16> entries;
  fi_cq_err_entry error{};
  fid_cq* const completions = each.endpoint->completions.get();
  if (fi_cq_read(completions, entries.data(), entries.size()) == -FI_EAVAIL)
    static_cast<void>(fi_cq_readerr(completions, &error, 0));
  return monotonic_ns() > each.until_ns;
}

}  // namespace offbeat
