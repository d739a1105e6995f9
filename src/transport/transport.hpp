// SPDX-License-Identifier: BSD-3-Clause
// Transport: what an algorithm runs on. One object per rank and communicator (or simulated rank).
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

  // Begins a send, a receive, or both. True: complete, the coroutine goes on. False: the transport resumes
  // `waiter` once both halves are complete. Messages between two ranks on one lane do not overtake.
  // Throws CommunicationError.
  [[nodiscard]] virtual bool start(Transfer& transfer) = 0;

  // Begins a reduction or a copy; returns as above. A transport in real time does the work at once.
  [[nodiscard]] virtual bool start(Computation& computation) = 0;

  // False where vectors are phantoms: scratch is then not allocated.
  [[nodiscard]] virtual bool moves_data() const { return true; }

  // Seconds since some moment.
  [[nodiscard]] virtual double now() const;

  // The shared memory of the ranks of this node; null if it could not be had on every node.
  Board* board = nullptr;
  // Where the ranks are; null: all on one node.
  const Locality* locality = nullptr;
  // Who is predicted late; null: nobody is, and nothing is learned. Not for collectives that may overlap:
  // their ranks would learn in different orders.
  Lateness* lateness = nullptr;

  // How many coroutines of this rank can run at once. A blocking transport may wait inside start() while it
  // is 1.
  int branches = 1;

  // The first of several coroutines of this rank that failed; the others may wait for it forever.
  std::exception_ptr branch_failure;
};

// One step of one rank: a message sent, one received, or both. Ranks are those of the communicator.
struct Transfer {
  // Not -1, which a mistake makes of rank 0's left neighbour.
  static constexpr int nobody = std::numeric_limits<int>::min();

  Transport* transport;
  int lane;
  int to = nobody;
  ConstVector outgoing{};
  std::size_t head_bytes = 0;  // of it, which are data even where vectors are phantoms
  int from = nobody;
  Vector incoming{};

  std::coroutine_handle<> waiter{};
  int pending = 0;  // the transport's: halves that are not complete
  // The transport's, too: a long vector travels in several messages.
  struct Direction {
    std::size_t bytes_begun = 0;
    int messages_under_way = 0;
  };
  Direction sending{};
  Direction receiving{};

  [[nodiscard]] bool await_ready() { return (to == nobody && from == nobody) || transport->start(*this); }
  void await_suspend(std::coroutine_handle<> awaiting) { waiter = awaiting; }
  void await_resume() const {}
};

// destination = operand 0 op operand 1 op ..., from the first to the last, or a copy when there is but one;
// and the same to `second`, if given.
struct Computation {
  static constexpr std::size_t most_operands = 8;

  Transport* transport;
  const Reduction* reduction;  // null: copy
  Vector destination;
  std::array<const void*, most_operands> operands;
  std::size_t operand_count;
  std::uint32_t left = 0;  // bit k: operand k is to the left of the result so far, not right
  Vector second{};
  bool to_shared =
      false;  // the destination of a copy is in shared memory, where other ranks have read before
  bool past_cache = false;  // the destination of a copy, or the second one, is not kept in the cache
  bool at_rest = false;     // nobody writes the source of a copy, nor what is behind it

  std::coroutine_handle<> waiter{};

  void add(const void* operand, bool on_the_left) {
    left |= static_cast<std::uint32_t>(on_the_left) << operand_count;
    operands[operand_count++] = operand;
  }
  // The work itself; phantoms are left alone.
  void perform() const;

  [[nodiscard]] bool await_ready() { return destination.count == 0 || transport->start(*this); }
  void await_suspend(std::coroutine_handle<> awaiting) { waiter = awaiting; }
  void await_resume() const {}
};

}  // namespace offbeat
