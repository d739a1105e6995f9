// SPDX-License-Identifier: BSD-3-Clause
// Endpoint is what an algorithm talks to: one rank's view of a communicator, or of a part of one.
//
//    co_await net.exchange(peer, mine, theirs);
//    co_await net.reduce(op, result, mine, theirs);
//
// An endpoint is cheap to copy. The endpoint of a part keeps a pointer to the endpoint that it was made from.
// That one must live longer. It does if the part is passed to a coroutine that the owner of the whole awaits.
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

// Scratch memory that an algorithm holds while its coroutine lives.
class Scratch {
 public:
  // Allocates `count` elements of `width` bytes. If `real` is false, the vector is a phantom: only its first
  // `head_bytes` bytes are allocated.
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
  // `lanes` says how many independent streams of messages the algorithm may use at once (Expression::lanes).
  Endpoint(Transport& transport, int rank, int size, int lanes = 1)
      : rank(rank), size(size), transport_(&transport), lateness_(transport.lateness), lane_count_(lanes) {}

  // Sends `data` to rank `to`. Its first `head_bytes` bytes arrive even if the vectors are phantoms.
  [[nodiscard]] Transfer send(int to, ConstVector data, std::size_t head_bytes = 0) const {
    return {.transport = transport_,
            .lane = first_lane_,
            .to = rank_of_peer(to, data),
            .outgoing = data,
            .head_bytes = head_bytes};
  }
  [[nodiscard]] Transfer receive(int from, Vector data) const {
    return {.transport = transport_, .lane = first_lane_, .from = rank_of_peer(from, data), .incoming = data};
  }
  // Sends and receives at the same time; neither half waits for the other.
  [[nodiscard]] Transfer exchange(int to, ConstVector outgoing, int from, Vector incoming) const {
    return {.transport = transport_,
            .lane = first_lane_,
            .to = rank_of_peer(to, outgoing),
            .outgoing = outgoing,
            .from = rank_of_peer(from, incoming),
            .incoming = incoming};
  }
  [[nodiscard]] Transfer exchange(int peer, ConstVector outgoing, Vector incoming) const {
    return exchange(peer, outgoing, peer, incoming);
  }

  // result = the operands combined from left to right. `result` may be one of the 1 to 8 operands.
  template <class... Operands>
  [[nodiscard]] Computation reduce(const Reduction& op, Vector result, const Operands&... operands) const {
    static_assert(sizeof...(operands) >= 1 && sizeof...(operands) <= Computation::most_operands);
    return {.transport = transport_,
            .reduction = &op,
            .destination = result,
            .operands = {operands.data...},
            .operand_count = sizeof...(operands)};
  }
  // Combines a list of operands that is known only at run time.
  [[nodiscard]] Computation reduce(const Reduction& op, Vector result,
                                   const std::array<const void*, Computation::most_operands>& operands,
                                   std::size_t operand_count) const {
    return {.transport = transport_,
            .reduction = &op,
            .destination = result,
            .operands = operands,
            .operand_count = operand_count};
  }
  // Combines what this rank and `peer` have exchanged. On both ranks the lower rank's operand is on the left,
  // so both get the same bits.
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

  // Copies into a window of the board.
  [[nodiscard]] Computation put(Vector window, ConstVector source) const {
    Computation made = copy(window, source);
    made.to_shared = true;
    return made;
  }
  // Begins to copy a vector on a device into a window of this rank. Later computations, of this round or the
  // next, find it there. For a vector in host memory this does nothing.
  void prefetch(Vector window, ConstVector source, bool for_next_round = false) const {
    transport_->prefetch(source, window, for_next_round);
  }
  // Waits for copies from and to devices. Await it before a round begins: copies read the windows of the
  // round before.
  [[nodiscard]] RoundEnd end_round() const { return {transport_}; }

  // Returns scratch memory. Its first `head_bytes` bytes have memory even if the vectors are phantoms.
  [[nodiscard]] Scratch scratch(std::size_t count, std::size_t width, std::size_t head_bytes = 0) const {
    return {transport_->moves_data(), count, width, head_bytes};
  }

  // Returns an endpoint for the `size` ranks that `map` names. In it, this rank has the number `member`.
  [[nodiscard]] Endpoint part(const RankMap& map, int member, int size) const {
    Endpoint result = *this;
    result.rank = member;
    result.size = size;
    result.whole_endpoint_ = this;
    result.map_ = map;
    result.lateness_ = nullptr;
    return result;
  }

  // Returns this endpoint with lateness prediction. Only for a part that has the same ranks in each call with
  // that many ranks.
  [[nodiscard]] Endpoint with_lateness() const {
    Endpoint result = *this;
    result.lateness_ = transport_->lateness;
    return result;
  }

  // Runs the tasks make(endpoint, k) for k = 0..n-1 at the same time, each on lanes of its own. Awaiting the
  // result waits for all of them and rethrows the first failure. A task must take its endpoint by value.
  template <class Make>
  [[nodiscard]] Concurrently concurrently(int n, Make&& make) const;
  // Runs such tasks on the lanes that this endpoint has. No two of the tasks may send to the same rank, or
  // receive from the same rank.
  template <class Make>
  [[nodiscard]] Concurrently concurrently_on_shared_lanes(int n, Make&& make) const;

  // Returns the shared memory of the ranks of this node.
  [[nodiscard]] Board* board() const { return transport_->board; }
  // Returns where this rank is (node/membership.hpp), or null if all ranks are on one node.
  [[nodiscard]] const Locality* locality() const { return transport_->locality; }
  // Returns which of these ranks are predicted to come late, or null if nothing is known.
  [[nodiscard]] Lateness* lateness() const { return lateness_; }
  [[nodiscard]] double now() const { return transport_->now(); }
  [[nodiscard]] bool moves_data() const { return transport_->moves_data(); }

  int rank;
  int size;

 private:
  friend class Concurrently;

  // Returns the communicator's rank that `peer` is in this part. An empty vector needs no message, so the
  // result is then `nobody`. Sender and receiver agree on that because both know the length.
  template <class Byte>
  [[nodiscard]] int rank_of_peer(int peer, const BasicVector<Byte>& data) const {
    if (data.count == 0) return Transfer::nobody;
    for (const Endpoint* part = this; part->whole_endpoint_ != nullptr; part = part->whole_endpoint_)
      peer = part->map_(peer);
    return peer;
  }

  Transport* transport_;
  Lateness* lateness_;
  const Endpoint* whole_endpoint_ = nullptr;
  RankMap map_{};
  int first_lane_ = 0;
  int lane_count_;
};

// The awaitable that Endpoint::concurrently returns.
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
    transport_->running_coroutines += static_cast<int>(count_) - 1;
    join_.running_tasks = count_;
    for (std::size_t k = 0; k < count_; ++k) tasks_[k].set_join(join_);
    for (std::size_t k = 0; k < count_; ++k) tasks_[k].start();
    if (join_.running_tasks == 0) return false;
    join_.parent = parent;
    return true;
  }
  void await_resume() {
    transport_->running_coroutines -= static_cast<int>(count_) - 1;
    for (std::size_t k = 0; k < count_; ++k) tasks_[k].rethrow_if_failed();
  }

 private:
  // This is a separate constructor so that the destructor runs if one of the tasks cannot be made.
  Concurrently(const Endpoint& net, int n)
      : transport_(net.transport_),
        capacity_(static_cast<std::size_t>(n)),
        tasks_(static_cast<Task*>(pool::allocate(capacity_ * sizeof(Task)))),
        join_{.failure = &net.transport_->first_coroutine_failure} {}

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
Concurrently Endpoint::concurrently_on_shared_lanes(int n, Make&& make) const {
  return Concurrently(*this, n, std::forward<Make>(make), false);
}

}  // namespace offbeat
