// SPDX-License-Identifier: BSD-3-Clause
// The messages in the simulator: which send belongs to which receive, and which ranks wait for each other in
// a deadlock.
#pragma once

#include <cstddef>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "transport/transport.hpp"

namespace offbeat {

struct SimulatedMessage {
  SimulatedMessage* next = nullptr;  // in its bucket or in the free list
  Transfer* sender = nullptr;        // null when the sender's half is complete
  Transfer* receiver = nullptr;      // null until the receive is posted
  std::byte* payload = nullptr;      // copy of an eager message's data: `carried_bytes` bytes from pool.hpp
  std::size_t bytes = 0;
  std::size_t carried_bytes = 0;    // bytes that are not a phantom
  double alpha = 0;                 // its latency in seconds
  double port_seconds = 0;          // how long it occupies a port
  double send_copy_seconds = 0;     // how long the sender's core copies it
  double receive_copy_seconds = 0;  // how long the receiver's core copies it
  double first_posted = 0;          // when its first side was posted
  double handed_to_network = 0;     // when the sender's core has handed it to the network
  double last_byte_left = 0;        // when its last byte leaves, if the node does not delay it
  double earliest_received = 0;     // earliest time at which it is received
  double receiver_sends_until = 0;  // when the receiver has sent its own message of an exchange
  int source = 0;
  int destination = 0;
  int lane = 0;
  bool is_send_posted = false;  // true if the send is posted
  bool is_eager = false;
  bool stays_on_node = false;     // true if both ranks are on one node
  bool card_has_begun = false;    // true if the node's card has begun with it
  bool is_leaving_node = false;   // true while it is in the port out of its node, or in the node's memory
  bool is_entering_node = false;  // true while it is in the port into its node
  bool has_arrived = false;       // true if its first byte has arrived
  // Returns true if `earliest_received` is final.
  [[nodiscard]] bool is_final() const { return has_arrived && !is_leaving_node && !is_entering_node; }
};

class SimulatedMessages {
 public:
  explicit SimulatedMessages(int ranks);
  SimulatedMessages(const SimulatedMessages&) = delete;
  SimulatedMessages& operator=(const SimulatedMessages&) = delete;
  ~SimulatedMessages() { clear(); }

  // Returns the oldest open message between these ranks on this lane whose other side is posted. If there is
  // none, returns a new message, which stays open until its other side is posted.
  SimulatedMessage& post(int source, int destination, int lane, bool sending);
  void release(SimulatedMessage& message);
  void clear();

  [[nodiscard]] std::size_t unmatched() const { return unmatched_; }
  // Describes which rank waits for which, in at most ten lines, and one cycle of ranks that wait for each
  // other if there is one. A rank has ended if its exit time is finite.
  [[nodiscard]] std::string describe_unmatched(std::span<const double> exits) const;

 private:
  // The open messages with one hash value, oldest first. For one (source, destination, lane) either only
  // sends are open or only receives.
  struct Bucket {
    SimulatedMessage* first = nullptr;
    SimulatedMessage* last = nullptr;
    void append(SimulatedMessage& message);
  };
  Bucket& bucket_of(int source, int destination, int lane);
  void grow();
  SimulatedMessage& allocate();

  std::vector<Bucket> buckets_;  // a hash table; its size is a power of two
  std::size_t unmatched_ = 0;
  SimulatedMessage* free_ = nullptr;
  std::vector<std::unique_ptr<SimulatedMessage[]>> slabs_;
};

}  // namespace offbeat
