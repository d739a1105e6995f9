// SPDX-License-Identifier: BSD-3-Clause
// The simulator's messages: which send belongs to which receive, and who waits for whom when nothing moves.
#pragma once

#include <cstddef>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "transport/transport.hpp"

namespace offbeat {

struct SimulatedMessage {
  SimulatedMessage* next = nullptr;  // in its bucket, or in the free list
  Transfer* sender = nullptr;        // until its half is over
  Transfer* receiver = nullptr;      // null until it is posted
  std::byte* payload = nullptr;      // what an eager message carries: from pool.hpp, `carried` long
  std::size_t bytes = 0;
  std::size_t carried = 0;    // bytes that are no phantoms
  double alpha = 0;           // its latency
  double seconds = 0;         // that it takes a port
  double posted = 0;          // its first side
  double left_rank = 0;       // when its last byte leaves, if the node does not delay it
  double done = 0;            // received no earlier than this
  double receiver_sends = 0;  // until this, in the same step
  int source = 0;
  int destination = 0;
  int lane = 0;
  bool sent = false;  // the send is posted
  bool eager = false;
  bool stays = false;                                                  // within its node
  bool leaving = false;                                                // in its node's port
  bool arrives = false;                                                // its first byte is there
  [[nodiscard]] bool is_final() const { return arrives && !leaving; }  // `done` is
};

class SimulatedMessages {
 public:
  explicit SimulatedMessages(int ranks);
  SimulatedMessages(const SimulatedMessages&) = delete;
  SimulatedMessages& operator=(const SimulatedMessages&) = delete;
  ~SimulatedMessages() { clear(); }

  // The oldest message between these two on this lane whose other side is posted; else a new one, which stays
  // open until the other side is posted.
  SimulatedMessage& post(int source, int destination, int lane, bool sending);
  void release(SimulatedMessage& message);
  void clear();

  [[nodiscard]] std::size_t open() const { return open_; }
  // Who waits for whom, in ten lines at most, and a cycle of ranks that wait for each other if there is one.
  // A rank has ended if its exit is finite.
  [[nodiscard]] std::string describe_open(std::span<const double> exits) const;

 private:
  // Oldest first. Of one (source, destination, lane) either only sends are open or only receives.
  struct Bucket {
    SimulatedMessage* first = nullptr;
    SimulatedMessage* last = nullptr;
    void append(SimulatedMessage& message);
  };
  Bucket& bucket_of(int source, int destination, int lane);
  void grow();
  SimulatedMessage& allocate();

  std::vector<Bucket> buckets_;  // a hash table; a power of two
  std::size_t open_ = 0;
  SimulatedMessage* free_ = nullptr;
  std::vector<std::unique_ptr<SimulatedMessage[]>> slabs_;
};

}  // namespace offbeat
