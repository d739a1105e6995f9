// SPDX-License-Identifier: BSD-3-Clause
// Transport carries out what an algorithm asks for. There is one object per rank and communicator, or per
// simulated rank.
//
// An algorithm never calls it: it awaits the operations that Endpoint makes. Each operation lives in the
// frame of the coroutine that awaits it, from `start` until the transport resumes `waiter`.
#pragma once

#include <array>
#include <coroutine>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <limits>

#include "reduction/reduction.hpp"
#include "transport/vector.hpp"

namespace offbeat {

class Board;
struct Locality;
class Lateness;
struct Transfer;
struct Computation;

class Transport {
 public:
  virtual ~Transport() = default;
  Transport() = default;
  Transport(const Transport&) = delete;
  Transport& operator=(const Transport&) = delete;

  // Begins a send, a receive, or both. Returns true if it is already complete; the coroutine then continues.
  // Otherwise the transport resumes `waiter` when both halves are complete. Messages between two ranks on one
  // lane do not overtake each other. Throws CommunicationError.
  [[nodiscard]] virtual bool start(Transfer& transfer) = 0;

  // Begins a reduction or a copy; returns true if it is already complete. A transport in real time does the
  // work at once.
  [[nodiscard]] virtual bool start(Computation& computation) = 0;

  // Returns false if vectors are phantoms. Scratch memory is then not allocated.
  [[nodiscard]] virtual bool moves_data() const { return true; }

  // These functions serve vectors on a device (node/device_copies.hpp). If `source` is on a device,
  // prefetch() begins to copy it to `place`. If copies of the round are under way, try_to_end_round() returns
  // false, and resume_when_round_ends() resumes `waiter` when they are complete.
  virtual void prefetch(const ConstVector& /*source*/, const Vector& /*place*/, bool /*for_next_round*/) {}
  [[nodiscard]] virtual bool try_to_end_round() { return true; }
  virtual void resume_when_round_ends(std::coroutine_handle<> /*waiter*/) {}

  // Returns the time in seconds since some fixed moment.
  [[nodiscard]] virtual double now() const;

  // The shared memory of this node's ranks; null if some node could not provide it.
  Board* board = nullptr;
  // Where the ranks are; null if all are on one node.
  const Locality* locality = nullptr;
  // Which ranks are predicted to be late. Null: none are, and nothing is noted. This is the case for
  // collectives that may overlap, because their ranks would note in different orders.
  Lateness* lateness = nullptr;

  // How many coroutines of this rank can run at once. While it is 1, a blocking transport may wait inside
  // start().
  int running_coroutines = 1;

  // The first failure among several coroutines of this rank. The others may wait for the failed one
  // forever.
  std::exception_ptr first_coroutine_failure;
};

// A message sent, a message received, or both, as one step of a rank. Ranks are numbered as in the
// communicator.
struct Transfer {
  // This is not -1, because a faulty formula for the left neighbour of rank 0 gives -1.
  static constexpr int nobody = std::numeric_limits<int>::min();

  Transport* transport;
  int lane;
  int to = nobody;
  ConstVector outgoing{};
  std::size_t head_bytes = 0;  // how many first bytes are sent even if vectors are phantoms
  int from = nobody;
  Vector incoming{};

  std::coroutine_handle<> waiter{};
  int pending_halves = 0;  // for the transport: how many halves are not complete
  // For the transport: how far a long vector has travelled, which goes in several messages.
  struct Direction {
    std::size_t begun_bytes = 0;
    int messages_under_way = 0;
  };
  Direction sending{};
  Direction receiving{};

  [[nodiscard]] bool await_ready() { return (to == nobody && from == nobody) || transport->start(*this); }
  void await_suspend(std::coroutine_handle<> awaiting) { waiter = awaiting; }
  void await_resume() const {}
};

// destination = operand 0 op operand 1 op ..., combined in this order; with a single operand, a copy of it.
// If `second_destination` is given, the result also goes there.
struct Computation {
  static constexpr std::size_t most_operands = 8;

  Transport* transport;
  const Reduction* reduction;  // null: a copy
  Vector destination;
  std::array<const void*, most_operands> operands;
  std::size_t operand_count;
  // Bit k: operand k goes to the left of the result so far, instead of to the right.
  std::uint32_t left_operands = 0;
  Vector second_destination{};
  bool to_shared = false;   // the destination of a copy is shared memory that other ranks have read
  bool past_cache = false;  // do not keep the destination of the copy (or `second_destination`) in the cache
  bool source_is_stable = false;  // no rank writes to the source of the copy, or just behind it
  bool source_changes = false;    // other ranks may write to the source before the round ends

  std::coroutine_handle<> waiter{};

  void add(const void* operand, bool on_the_left) {
    left_operands |= static_cast<std::uint32_t>(on_the_left) << operand_count;
    operands[operand_count++] = operand;
  }
  // Does the work. Phantoms are left alone.
  void perform() const;

  [[nodiscard]] bool await_ready() { return destination.count == 0 || transport->start(*this); }
  void await_suspend(std::coroutine_handle<> awaiting) { waiter = awaiting; }
  void await_resume() const {}
};

// Waits until the copies of a round from and to a device are complete.
struct RoundEnd {
  Transport* transport;

  [[nodiscard]] bool await_ready() const { return transport->try_to_end_round(); }
  void await_suspend(std::coroutine_handle<> waiter) const { transport->resume_when_round_ends(waiter); }
  void await_resume() const {}
};

}  // namespace offbeat
