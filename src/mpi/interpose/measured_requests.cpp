// SPDX-License-Identifier: BSD-3-Clause
#include "mpi/interpose/measured_requests.hpp"

#include <algorithm>
#include <mutex>
#include <span>
#include <utility>

#include "mpi/interpose/activity.hpp"

namespace offbeat {

constinit MeasuredRequests measured_requests;

std::int8_t MeasuredRequests::reserve_entry(MeasuredCall call) noexcept {
  const std::lock_guard lock(lock_);
  for (std::size_t k = 0; k < entries_.size(); ++k) {
    if (entries_[k].state != Entry::State::free) continue;
    entries_[k].state = Entry::State::taken;
    entries_[k].call = std::move(call);
    activities.watch_requests_of_host(1);
    return static_cast<std::int8_t>(k);
  }
  return Outcome::none;
}

void MeasuredRequests::note_begun(int place, int code, MPI_Request request, std::uint64_t since) noexcept {
  const std::lock_guard lock(lock_);
  Entry& entry = entries_[static_cast<std::size_t>(place)];
  if (code != MPI_SUCCESS) {
    release(entry);
    return;
  }
  entry.state = Entry::State::known;
  entry.request = request;
  entry.call.add_since(since);
}

void MeasuredRequests::forget(MPI_Request request) noexcept {
  const std::lock_guard lock(lock_);
  for (Entry& each : entries_)
    if (each.state == Entry::State::known && each.request == request) release(each);
}

void MeasuredRequests::release(Entry& entry) noexcept {
  entry = {};
  activities.watch_requests_of_host(-1);
}

MeasuredRequests::WaitMeasurement::WaitMeasurement(int count, MPI_Request* requests) noexcept
    : requests_(requests) {
  if (requests == nullptr) return;
  const std::lock_guard lock(measured_requests.lock_);
  const auto& entries = measured_requests.entries_;
  for (std::size_t k = 0; k < entries.size(); ++k) {
    if (entries[k].state != Entry::State::known) continue;
    for (int i = 0; i < count; ++i) {
      if (requests[i] != entries[k].request) continue;
      found_[count_++] = {i, k};
      break;
    }
  }
  if (count_ > 0) begun_ = RowTrial::now();
}

int MeasuredRequests::WaitMeasurement::end(int code, bool waited) noexcept {
  if (count_ == 0) return code;
  const std::uint64_t spent = RowTrial::now() - begun_;
  const std::lock_guard lock(measured_requests.lock_);
  const auto is_over = [&](const Found& found) {
    return requests_[found.index] == MPI_REQUEST_NULL &&
           measured_requests.entries_[found.place].state == Entry::State::known;
  };
  const auto found = std::span(found_).first(count_);
  const auto over = static_cast<std::uint64_t>(std::ranges::count_if(found, is_over));
  for (const Found& each : found) {
    if (!is_over(each)) continue;
    Entry& entry = measured_requests.entries_[each.place];
    if (waited) {
      entry.call.add(spent / over);
      entry.call.end();
    }
    measured_requests.release(entry);
  }
  return code;
}

}  // namespace offbeat
