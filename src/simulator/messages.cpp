// SPDX-License-Identifier: BSD-3-Clause
#include "simulator/messages.hpp"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>
#include <tuple>
#include <utility>

#include "base/pool.hpp"

namespace offbeat {
namespace {

constexpr std::size_t messages_per_slab = 512;
constexpr std::size_t most_lines = 10;

}  // namespace

SimulatedMessages::SimulatedMessages(int ranks)
    : buckets_(std::bit_ceil(static_cast<std::size_t>(ranks) * 2)) {}

// In one step of an algorithm most ranks send over the same distance. Ranks with close numbers then get
// adjacent buckets. For the cache that is better than a good hash function.
SimulatedMessages::Bucket& SimulatedMessages::bucket_of(int source, int destination, int lane) {
  const auto distance = static_cast<std::uint64_t>(static_cast<std::int64_t>(source) - destination);
  const std::uint64_t hash = (distance + (static_cast<std::uint64_t>(lane) << 32)) * 0x9E3779B97F4A7C15u;
  return buckets_[((hash >> 32) + static_cast<std::uint64_t>(destination)) & (buckets_.size() - 1)];
}

void SimulatedMessages::Bucket::append(SimulatedMessage& message) {
  message.next = nullptr;
  (first == nullptr ? first : last->next) = &message;
  last = &message;
}

SimulatedMessage& SimulatedMessages::post(int source, int destination, int lane, bool sending) {
  Bucket& bucket = bucket_of(source, destination, lane);
  SimulatedMessage* previous = nullptr;
  for (SimulatedMessage* message = bucket.first; message != nullptr; message = message->next) {
    if (message->source == source && message->destination == destination && message->lane == lane) {
      if (message->is_send_posted == sending) break;
      (previous == nullptr ? bucket.first : previous->next) = message->next;
      if (bucket.last == message) bucket.last = previous;
      --unmatched_;
      return *message;
    }
    previous = message;
  }
  SimulatedMessage& message = allocate();
  message.source = source;
  message.destination = destination;
  message.lane = lane;
  if (unmatched_++ == buckets_.size()) grow();
  bucket_of(source, destination, lane).append(message);
  return message;
}

void SimulatedMessages::grow() {
  std::vector<Bucket> old(2 * buckets_.size());
  old.swap(buckets_);
  for (const Bucket& bucket : old) {
    for (SimulatedMessage* message = bucket.first; message != nullptr;) {
      SimulatedMessage* next = message->next;
      bucket_of(message->source, message->destination, message->lane).append(*message);
      message = next;
    }
  }
}

SimulatedMessage& SimulatedMessages::allocate() {
  if (free_ == nullptr) {
    slabs_.push_back(std::make_unique<SimulatedMessage[]>(messages_per_slab));
    for (std::size_t k = messages_per_slab; k-- > 0;) {
      slabs_.back()[k].next = std::exchange(free_, &slabs_.back()[k]);
    }
  }
  SimulatedMessage& message = *std::exchange(free_, free_->next);
  message = SimulatedMessage{};
  return message;
}

void SimulatedMessages::release(SimulatedMessage& message) {
  if (message.payload != nullptr)
    pool::release(std::exchange(message.payload, nullptr), message.carried_bytes);
  message.next = std::exchange(free_, &message);
}

void SimulatedMessages::clear() {
  std::fill(buckets_.begin(), buckets_.end(), Bucket{});
  unmatched_ = 0;
  free_ = nullptr;
  for (const auto& slab : slabs_) {
    for (std::size_t k = 0; k < messages_per_slab; ++k) release(slab[k]);
  }
}

// What follows describes messages that are still open at the end of a run.

namespace {

struct UnmatchedMessage {
  enum class State : std::uint8_t { receiving, sending, sent } state;
  int rank;  // the side that has begun
  int peer;
  int lane;
  std::size_t bytes;
};

std::string describe(const UnmatchedMessage& unmatched, std::span<const double> exits) {
  using State = UnmatchedMessage::State;
  const bool peer_has_ended = std::isfinite(exits[static_cast<std::size_t>(unmatched.peer)]);
  return "rank " + std::to_string(unmatched.rank) +
         (unmatched.state == State::receiving ? " waits to receive "
          : unmatched.state == State::sending ? " waits to send "
                                              : " sent ") +
         std::to_string(unmatched.bytes) + " bytes " + (unmatched.state == State::receiving ? "from" : "to") +
         " rank " + std::to_string(unmatched.peer) + " on lane " + std::to_string(unmatched.lane) +
         (unmatched.state == State::sent ? ", never received"
          : peer_has_ended               ? ", which has ended"
                                         : "");
}

// Returns a cycle of ranks in which each waits for the next and the last waits for the first. Empty if there
// is none. `waits` must be sorted by rank.
std::vector<int> find_cycle(std::span<const UnmatchedMessage> waits, std::size_t ranks) {
  std::vector<std::size_t> first(ranks + 1);  // where the waits of each rank begin
  for (const UnmatchedMessage& wait : waits) ++first[static_cast<std::size_t>(wait.rank) + 1];
  for (std::size_t rank = 0; rank < ranks; ++rank) first[rank + 1] += first[rank];

  enum class VisitState : std::uint8_t { not_visited, on_path, dead_end };
  std::vector<VisitState> marks(ranks, VisitState::not_visited);
  std::vector<std::size_t> followed(first.begin(), first.end() - 1);  // the next wait of each rank to follow
  std::vector<int> path;
  for (std::size_t root = 0; root < ranks; ++root) {
    if (marks[root] == VisitState::not_visited) path.push_back(static_cast<int>(root));
    while (!path.empty()) {
      const auto rank = static_cast<std::size_t>(path.back());
      marks[rank] = VisitState::on_path;
      if (followed[rank] == first[rank + 1]) {
        marks[rank] = VisitState::dead_end;
        path.pop_back();
        continue;
      }
      const int peer = waits[followed[rank]++].peer;
      const VisitState mark = marks[static_cast<std::size_t>(peer)];
      if (mark == VisitState::on_path) return {std::find(path.begin(), path.end(), peer), path.end()};
      if (mark == VisitState::not_visited) path.push_back(peer);
    }
  }
  return {};
}

}  // namespace

std::string SimulatedMessages::describe_unmatched(std::span<const double> exits) const {
  std::vector<UnmatchedMessage> unmatched;
  for (const Bucket& bucket : buckets_) {
    for (const SimulatedMessage* message = bucket.first; message != nullptr; message = message->next) {
      using State = UnmatchedMessage::State;
      if (message->is_send_posted) {
        unmatched.push_back({message->is_eager ? State::sent : State::sending, message->source,
                             message->destination, message->lane, message->bytes});
      } else {
        unmatched.push_back(
            {State::receiving, message->destination, message->source, message->lane, message->bytes});
      }
    }
  }
  // Ranks that wait come first. The messages in a bucket are in the order in which they were posted, and a
  // stable sort keeps it.
  const auto order = [](const UnmatchedMessage& unmatched) {
    return std::tuple(unmatched.state == UnmatchedMessage::State::sent, unmatched.rank, unmatched.lane,
                      unmatched.peer);
  };
  std::stable_sort(unmatched.begin(), unmatched.end(),
                   [&](const UnmatchedMessage& left, const UnmatchedMessage& right) {
                     return order(left) < order(right);
                   });

  std::string text;
  for (std::size_t k = 0; k < std::min(unmatched.size(), most_lines); ++k)
    text += "\n  " + describe(unmatched[k], exits);
  if (unmatched.size() > most_lines)
    text += "\n  and " + std::to_string(unmatched.size() - most_lines) + " more";

  const auto waiting = std::partition_point(
      unmatched.begin(), unmatched.end(),
      [](const UnmatchedMessage& unmatched) { return unmatched.state != UnmatchedMessage::State::sent; });
  const std::vector<int> cycle = find_cycle({unmatched.begin(), waiting}, exits.size());
  if (!cycle.empty()) {
    text += "\n  cycle: ";
    for (std::size_t k = 0; k < std::min(cycle.size(), most_lines); ++k) {
      text += std::to_string(cycle[k]) + " -> ";
    }
    if (cycle.size() > most_lines) text += "... (" + std::to_string(cycle.size()) + " ranks) -> ";
    text += std::to_string(cycle.front());
  }
  return text;
}

}  // namespace offbeat
