// SPDX-License-Identifier: BSD-3-Clause
#include "simulator/events.hpp"

#include <algorithm>
#include <limits>

namespace offbeat {
namespace {

constexpr std::size_t prefetch_distance = 4;
constexpr auto after = [](const SimulatedEvent& left, const SimulatedEvent& right) {
  return right.before(left);
};

}  // namespace

void SimulatedEvents::EventRun::push(const SimulatedEvent& event) {
  if (last - first == ring.size()) {
    EventRun larger{.ring = std::vector<SimulatedEvent>(2 * ring.size()), .first = first, .last = last};
    for (std::size_t k = first; k < last; ++k) larger[k] = (*this)[k];
    ring.swap(larger.ring);
  }
  (*this)[last++] = event;
}

// Appends the event to a run that ends before it. If there are several, this is the run that ends latest,
// because the others can then still take earlier events.
void SimulatedEvents::push(const SimulatedEvent& event) {
  ++size_;
  EventRun* best = nullptr;
  double best_end = 0;
  for (EventRun& run : runs_) {
    const double end = run.empty() ? -std::numeric_limits<double>::infinity() : run[run.last - 1].time;
    if (end <= event.time && (best == nullptr || end > best_end)) {
      best = &run;
      best_end = end;
    }
  }
  if (best != nullptr) {
    best->push(event);
  } else {
    heap_.push_back(event);
    std::push_heap(heap_.begin(), heap_.end(), after);
  }
}

SimulatedEvent SimulatedEvents::pop() {
  --size_;
  EventRun* next = nullptr;
  for (EventRun& run : runs_) {
    if (!run.empty() && (next == nullptr || run[run.first].before((*next)[next->first]))) next = &run;
  }
  if (next == nullptr || (!heap_.empty() && heap_.front().before((*next)[next->first]))) {
    const SimulatedEvent event = heap_.front();
    std::pop_heap(heap_.begin(), heap_.end(), after);
    heap_.pop_back();
    return event;
  }
  if (next->last - next->first > prefetch_distance) {
    const auto subject = reinterpret_cast<std::uintptr_t>((*next)[next->first + prefetch_distance].subject);
    __builtin_prefetch(reinterpret_cast<const void*>(subject));  // which may be null
    __builtin_prefetch(reinterpret_cast<const void*>(subject + 64));
  }
  return (*next)[next->first++];
}

void SimulatedEvents::clear() {
  for (EventRun& run : runs_) run.first = run.last = 0;
  heap_.clear();
  size_ = 0;
}

}  // namespace offbeat
