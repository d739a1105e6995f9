// SPDX-License-Identifier: BSD-3-Clause
// The simulator's agenda: what happens next in virtual time.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <vector>

namespace offbeat {

struct SimulatedEvent {
  enum class Kind : std::uint8_t {
    start,     // a rank's root task
    depart,    // SimulatedMessage: its first byte leaves the rank
    leave,     // SharedPort: its next message may have left
    arrive,    // SimulatedMessage: its first byte reaches the receiver
    land,      // SimulatedMessage: its last byte is there
    half,      // Transfer: one half is over
    complete,  // Transfer: over
    compute,   // Computation: over
    touch,     // a coroutine about to change the board
    resume,    // the coroutine of any other awaitable
  };
  double time;
  std::uint64_t sequence;  // in the order of scheduling: breaks ties
  void* subject;
  int rank;
  Kind kind;

  [[nodiscard]] bool before(const SimulatedEvent& other) const {
    return time < other.time || (time == other.time && sequence < other.sequence);
  }
};

// A priority queue for events that are pushed with growing sequence numbers.
//
// Only a few different delays are in use at a time, and events with the same delay are pushed in order. So an
// event usually comes after the last one of some earlier run of events and joins it: a queue, several times
// faster than a heap, in which one can also see ahead what memory will be needed. An event that fits no run
// goes through a heap.
class SimulatedEvents {
 public:
  [[nodiscard]] bool empty() const { return size_ == 0; }
  void push(const SimulatedEvent& event);
  SimulatedEvent pop();
  void clear();

 private:
  struct Run {
    std::vector<SimulatedEvent> ring = std::vector<SimulatedEvent>(64);  // a power of two
    std::size_t first = 0;
    std::size_t last = 0;  // one beyond; both only grow

    [[nodiscard]] bool empty() const { return first == last; }
    [[nodiscard]] SimulatedEvent& operator[](std::size_t k) { return ring[k & (ring.size() - 1)]; }
    void push(const SimulatedEvent& event);
  };

  std::array<Run, 8> runs_;
  std::vector<SimulatedEvent> heap_;
  std::size_t size_ = 0;
};

}  // namespace offbeat
