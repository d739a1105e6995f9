// SPDX-License-Identifier: BSD-3-Clause
#include "mpi/interpose/activities.hpp"

#include <array>
#include <memory>
#include <mutex>
#include <utility>

#include "mpi/interpose/activity.hpp"

namespace offbeat {

constinit Activities activities;

void Activities::reserve_persistent() {
  const std::lock_guard lock(lock_);
  table_.reserve();
}

void Activities::cancel_reservation() noexcept {
  const std::lock_guard lock(lock_);
  table_.cancel_reservation();
}

void Activities::insert_persistent(HostRequest& known_as) noexcept {
  const std::lock_guard lock(lock_);
  table_.insert(abi::bits(known_as.handle), known_as);
  add_to_count(persistent_, 1);
}

void Activities::erase_persistent(const HostRequest& known_as) noexcept {
  const std::lock_guard lock(lock_);
  table_.erase(abi::bits(known_as.handle));
  add_to_count(persistent_, -1);
}

HostRequest* Activities::take_request(Activity& activity) {
  {
    const std::lock_guard lock(lock_);
    if (spare_requests_ != nullptr) {
      HostRequest* const request = std::exchange(spare_requests_, spare_requests_->next_spare);
      request->serves = &activity;
      add_to_count(active_, 1);
      return request;
    }
  }
  auto made = std::make_unique<HostRequest>();
  made->serves = &activity;
  {
    const std::lock_guard lock(lock_);
    table_.reserve();
  }
  if (!activity.make(*made)) {
    cancel_reservation();
    return nullptr;
  }
  activity.process_.progress.report_to({.on_poll = on_poll_of_host, .before_end = free_spare_requests});
  const std::lock_guard lock(lock_);
  table_.insert(abi::bits(made->handle), *made);
  add_to_count(active_, 1);
  return made.release();
}

bool Activities::give_back(Activity& activity) noexcept {
  const std::lock_guard lock(lock_);
  if ((activity.state_.load(std::memory_order_acquire) & ~Activity::unclaimed) != Activity::over)
    return false;
  HostRequest* const request = std::exchange(activity.request_, nullptr);
  request->serves = nullptr;
  request->next_spare = std::exchange(spare_requests_, request);
  add_to_count(active_, -1);
  return true;
}

void Activities::watch_requests_of_host(int by) noexcept {
  const std::lock_guard lock(lock_);
  add_to_count(active_, by);
}

void Activities::forget(const HostRequest& request) noexcept {
  const std::lock_guard lock(lock_);
  table_.erase(abi::bits(request.handle));
  if (request.serves != nullptr) add_to_count(active_, -1);
}

// This function cannot tell which function the host is in. If the program waits there for a request of
// offbeat's, it calls none of offbeat's functions meanwhile, and the host calls this again and again.
void Activities::on_poll_of_host() noexcept {
  constexpr int patience = 16;
  if (inside_offbeat || !activities.any_active()) return;
  const int polls = activities.polls_of_host_.load(std::memory_order_relaxed) + 1;
  activities.polls_of_host_.store(polls % patience, std::memory_order_relaxed);
  if (polls < patience) return;
  const InsideOffbeat guard;
  operations_under_way.settle();
  activities.tell_host(runtime().host);
}

// Calls the host outside of the turn, because the host's function may wait for another thread that is in
// on_free.
void Activities::tell_host(const Host& host) noexcept {
  std::array<MPI_Request, 16> told{};
  std::size_t count = 0;
  {
    const std::lock_guard lock(lock_);
    table_.for_each([&](const HostRequest& request) {
      Activity* mine = request.serves;
      int state = Activity::over;
      if (count < told.size() && mine != nullptr && !mine->is_persistent() &&
          mine->state_.compare_exchange_strong(state, Activity::over | Activity::shared_with_host)) {
        told[count++] = request.handle;
      }
    });
  }
  for (std::size_t i = 0; i < count; ++i) host.Grequest_complete(told[i]);
}

void Activities::free_spare_requests() noexcept {
  const Host& host = runtime().host;
  HostRequest*& spare = activities.spare_requests_;
  while (spare != nullptr) {
    HostRequest* const request = std::exchange(spare, spare->next_spare);
    MPI_Request handle = request->handle;
    host.Grequest_complete(handle);
    host.Request_free(&handle);
  }
}

}  // namespace offbeat
