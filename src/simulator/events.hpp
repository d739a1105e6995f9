// SPDX-License-Identifier: BSD-3-Clause
// The event queue of the simulator: what happens next in virtual time.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <vector>

namespace offbeat {

struct SimulatedEvent {
  enum class Kind : std::uint8_t {
    start,              // start a rank's root task
    sent_by_core,       // SimulatedMessage: the sender's core hands it to the network
    depart,             // SimulatedMessage: its first byte leaves the rank
    leave,              // SharedPort: its next use may have ended
    arrive,             // SimulatedMessage: its first byte reaches the receiver
    enter,              // SimulatedMessage: the receiver's in port begins with it
    begin,              // Computation: the core begins with it
    last_byte_arrived,  // SimulatedMessage: its last byte has arrived
    half_complete,      // Transfer: one half is complete
    complete,           // Transfer: both halves are complete
    compute,            // Computation: complete
    touch,              // a coroutine that is about to change the board
    resume,             // the coroutine of any other awaitable
  };
  double time;
  std::uint64_t sequence;  // number in the order of scheduling; breaks ties
  void* subject;
  int rank;
  Kind kind;

  [[nodiscard]] bool before(const SimulatedEvent& other) const {
    return time < other.time || (time == other.time && sequence < other.sequence);
  }
};

// A priority queue for events whose sequence numbers grow.
//
// Only a few different delays are in use at a time, and events with one delay are pushed in order. So an
// event usually comes after the last event of some run and is appended to it. A run is a simple queue. It is
// several times faster than a heap, and one can look ahead and prefetch memory. An event that fits no run
// goes into a heap.
class SimulatedEvents {
 public:
  [[nodiscard]] bool empty() const { return size_ == 0; }
  void push(const SimulatedEvent& event);
  SimulatedEvent pop();
  void clear();

 private:
  struct EventRun {
    std::vector<SimulatedEvent> ring = std::vector<SimulatedEvent>(64);  // size: a power of two
    std::size_t first = 0;
    std::size_t last = 0;  // one beyond the last event; both only grow

    [[nodiscard]] bool empty() const { return first == last; }
    [[nodiscard]] SimulatedEvent& operator[](std::size_t k) { return ring[k & (ring.size() - 1)]; }
    void push(const SimulatedEvent& event);
  };

  std::array<EventRun, 8> runs_;
  std::vector<SimulatedEvent> heap_;
  std::size_t size_ = 0;
};

}  // namespace offbeat
