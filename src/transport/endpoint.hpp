// SPDX-License-Identifier: BSD-3-Clause
// Endpoint: what an algorithm talks to. A rank's view of a communicator, or of a part of one.
//
//     co_await net.exchange(peer, mine, theirs);
//     co_await net.reduce(op, result, mine, theirs);
//
// A cheap value. A part keeps a pointer to the endpoint it was made from, which must outlive it; it does when
// the part is passed to a coroutine that the owner awaits.
#pragma once

#include <cstddef>
#include <stdexcept>
#include <type_traits>
#include <utility>

#include "base/pool.hpp"
#include "base/task.hpp"
#include "patterns/rank_map.hpp"
#include "transport/transport.hpp"

namespace offbeat {

// Scratch memory for the life of a coroutine.
class Scratch {
 public:
  // Of a phantom its first head_bytes are there.
  Scratch(bool real, std::size_t count, std::size_t width, std::size_t head_bytes = 0)
      : allocated_(real ? count * width : head_bytes),
        vector_{allocated_ > 0 ? static_cast<std::byte*>(pool::allocate(allocated_)) : nullptr, count,
                width} {}
  Scratch(Scratch&& other) noexcept
      : allocated_(other.allocated_), vector_(std::exchange(other.vector_, {})) {}
  Scratch& operator=(Scratch&&) = delete;
  ~Scratch() {
    if (vector_.data != nullptr) pool::release(vector_.data, allocated_);
  }
  [[nodiscard]] const Vector& vector() const { return vector_; }
  [[nodiscard]] Vector first(std::size_t count) const { return vector_.slice(0, count); }

 private:
  std::size_t allocated_;
  Vector vector_;
};

class Concurrently;

class Endpoint {
 public:
  // `lanes`: how many independent streams of messages the algorithm may use at once (Expression::lanes).
  Endpoint(Transport& transport, int rank, int size, int lanes = 1)
      : rank(rank), size(size), transport_(&transport), lateness_(transport.lateness), lane_count_(lanes) {}

  // A message that begins with a head arrives with it even where vectors are phantoms.
  [[nodiscard]] Transfer send(int to, ConstVector data, std::size_t head_bytes = 0) const {
    return {.transport = transport_,
            .lane = first_lane_,
            .to = target(to, data),
            .outgoing = data,
            .head_bytes = head_bytes};
  }
  [[nodiscard]] Transfer receive(int from, Vector data) const {
    return {.transport = transport_, .lane = first_lane_, .from = target(from, data), .incoming = data};
  }
  // A send and a receive at once; neither waits for the other.
  [[nodiscard]] Transfer exchange(int to, ConstVector outgoing, int from, Vector incoming) const {
    return {.transport = transport_,
            .lane = first_lane_,
            .to = target(to, outgoing),
            .outgoing = outgoing,
            .from = target(from, incoming),
            .incoming = incoming};
  }
  [[nodiscard]] Transfer exchange(int peer, ConstVector outgoing, Vector incoming) const {
    return exchange(peer, outgoing, peer, incoming);
  }

  // result = operands combined from left to right, 1 to 8 of them. `result` may be one of them.
  template <class... Operands>
  [[nodiscard]] Computation reduce(const Reduction& op, Vector result, const Operands&... operands) const {
    static_assert(sizeof...(operands) >= 1 && sizeof...(operands) <= Computation::most_operands);
    return {.transport = transport_,
            .reduction = &op,
            .destination = result,
            .operands = {operands.data...},
            .operand_count = sizeof...(operands)};
  }
  // The same with a list of operands made at run time.
  [[nodiscard]] Computation reduce(const Reduction& op, Vector result,
                                   const std::array<const void*, Computation::most_operands>& operands,
                                   std::size_t operand_count) const {
    return {.transport = transport_,
            .reduction = &op,
            .destination = result,
            .operands = operands,
            .operand_count = operand_count};
  }
  // One step of an exchange: the operand of the lower rank stands left on both sides, so that both get the
  // same bits.
  [[nodiscard]] Computation reduce_by_rank(const Reduction& op, Vector result, int peer, ConstVector mine,
                                           ConstVector theirs) const {
    return peer < rank ? reduce(op, result, theirs, mine) : reduce(op, result, mine, theirs);
  }
  [[nodiscard]] Computation copy(Vector destination, ConstVector source) const {
    return {.transport = transport_,
            .reduction = nullptr,
            .destination = source.data == destination.data && source.data != nullptr ? Vector{} : destination,
            .operands = {source.data},
            .operand_count = 1};
  }

  // A copy into a window of the board.
  [[nodiscard]] Computation put(Vector window, ConstVector source) const {
    Computation made = copy(window, source);
    made.to_shared = true;
    return made;
  }

  // Its first head_bytes are there even where vectors are phantoms.
  [[nodiscard]] Scratch scratch(std::size_t count, std::size_t width, std::size_t head_bytes = 0) const {
    return {transport_->moves_data(), count, width, head_bytes};
  }

  // The `size` ranks that `map` names, as a communicator of their own in which this rank is `member`.
  [[nodiscard]] Endpoint part(const RankMap& map, int member, int size) const {
    Endpoint result = *this;
    result.rank = member;
    result.size = size;
    result.whole_ = this;
    result.map_ = map;
    result.lateness_ = nullptr;
    return result;
  }

  // For a part that has the same ranks in every call with so many: its ranks can learn who is late.
  [[nodiscard]] Endpoint with_lateness() const {
    Endpoint result = *this;
    result.lateness_ = transport_->lateness;
    return result;
  }

  // Runs make(endpoint, k) -> Task for k = 0..n-1 at the same time, each on lanes of its own. Awaiting it
  // waits for all of them and rethrows the first failure. The endpoint must be taken by value by the task.
  template <class Make>
  [[nodiscard]] Concurrently concurrently(int n, Make&& make) const;
  // The same on the lanes of this endpoint: no two of the tasks may send to the same rank, or receive from
  // the same rank.
  template <class Make>
  [[nodiscard]] Concurrently concurrently_with_peers(int n, Make&& make) const;

  // The shared memory of this node's ranks.
  [[nodiscard]] Board* board() const { return transport_->board; }
  // Where this rank is (node/membership.hpp); null: all ranks are on one node.
  [[nodiscard]] const Locality* locality() const { return transport_->locality; }
  // Which of these ranks come late; null: nobody knows.
  [[nodiscard]] Lateness* lateness() const { return lateness_; }
  [[nodiscard]] double now() const { return transport_->now(); }
  [[nodiscard]] bool moves_data() const { return transport_->moves_data(); }

  int rank;
  int size;

 private:
  friend class Concurrently;

  // An empty vector takes no message. Both sides know that, because both know the lengths.
  template <class Byte>
  [[nodiscard]] int target(int peer, const BasicVector<Byte>& data) const {
    if (data.count == 0) return Transfer::nobody;
    for (const Endpoint* part = this; part->whole_ != nullptr; part = part->whole_) peer = part->map_(peer);
    return peer;
  }

  Transport* transport_;
  Lateness* lateness_;
  const Endpoint* whole_ = nullptr;
  RankMap map_{};
  int first_lane_ = 0;
  int lane_count_;
};

// Awaitable of Endpoint::concurrently.
class Concurrently {
 public:
  template <class Make>
  Concurrently(const Endpoint& net, int n, Make&& make, bool apart = true) : Concurrently(net, n) {
    Endpoint branch = net;
    if (apart) branch.lane_count_ = net.lane_count_ / n;
    for (; count_ < capacity_; ++count_) {
      new (&tasks_[count_]) Task(make(std::as_const(branch), static_cast<int>(count_)));
      if (apart) branch.first_lane_ += branch.lane_count_;
    }
  }
  Concurrently(const Concurrently&) = delete;
  Concurrently& operator=(const Concurrently&) = delete;
  ~Concurrently() {
    for (std::size_t k = 0; k < count_; ++k) tasks_[k].~Task();
    pool::release(tasks_, capacity_ * sizeof(Task));
  }

  [[nodiscard]] bool await_ready() const { return count_ == 0; }
  bool await_suspend(std::coroutine_handle<> parent) {
    transport_->branches += static_cast<int>(count_) - 1;
    join_.running = count_;
    for (std::size_t k = 0; k < count_; ++k) tasks_[k].set_join(join_);
    for (std::size_t k = 0; k < count_; ++k) tasks_[k].start();
    if (join_.running == 0) return false;
    join_.parent = parent;
    return true;
  }
  void await_resume() {
    transport_->branches -= static_cast<int>(count_) - 1;
    for (std::size_t k = 0; k < count_; ++k) tasks_[k].rethrow_if_failed();
  }

 private:
  // A constructor of its own, so that the destructor runs when one of the tasks cannot be made.
  Concurrently(const Endpoint& net, int n)
      : transport_(net.transport_),
        capacity_(static_cast<std::size_t>(n)),
        tasks_(static_cast<Task*>(pool::allocate(capacity_ * sizeof(Task)))),
        join_{.failure = &net.transport_->branch_failure} {}

  Transport* transport_;
  std::size_t capacity_;
  std::size_t count_ = 0;
  Task* tasks_;
  JoinCounter join_;
};

template <class Make>
Concurrently Endpoint::concurrently(int n, Make&& make) const {
  if (n < 1 || n > lane_count_)
    throw std::logic_error("an algorithm uses more lanes than its expression declares");
  return Concurrently(*this, n, std::forward<Make>(make));
}

template <class Make>
Concurrently Endpoint::concurrently_with_peers(int n, Make&& make) const {
  return Concurrently(*this, n, std::forward<Make>(make), false);
}

}  // namespace offbeat
