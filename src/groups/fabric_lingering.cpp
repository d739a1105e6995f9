// SPDX-License-Identifier: BSD-3-Clause
#include "groups/fabric_lingering.hpp"

#include <array>
#include <cstddef>
#include <cstdlib>
#include <mutex>
#include <utility>

#include "base/time.hpp"

namespace offbeat {

LingeringEndpoints& LingeringEndpoints::of_process() {
  static auto* const made = [] {
    auto* const endpoints = new LingeringEndpoints;  // groups may end after static objects
    static_cast<void>(std::atexit([] {
      while (!of_process().poll()) usleep(1000);
    }));
    return endpoints;
  }();
  return *made;
}

// A provider may need much memory for each endpoint.
void LingeringEndpoints::add(std::unique_ptr<FabricEndpoint> endpoint) {
  constexpr std::size_t most = 4;
  const std::lock_guard guard(lock_);
  all_.push_back({std::move(endpoint), monotonic_ns() + ns_per_s, getpid()});
  if (all_.size() > most) all_.erase(all_.begin());
}

bool LingeringEndpoints::poll() {
  const std::lock_guard guard(lock_);
  std::erase_if(all_, is_over);
  return all_.empty();
}

// A child of fork() has no part in its parent's endpoint.
bool LingeringEndpoints::is_over(Each& each) {
  if (each.process != getpid()) {
    static_cast<void>(each.endpoint.release());
    return true;
  }
  std::array<fi_cq_tagged_entry, 16> entries;
  fi_cq_err_entry error{};
  fid_cq* const completions = each.endpoint->completions.get();
  if (fi_cq_read(completions, entries.data(), entries.size()) == -FI_EAVAIL)
    static_cast<void>(fi_cq_readerr(completions, &error, 0));
  return monotonic_ns() > each.until_ns;
}

}  // namespace offbeat
