// SPDX-License-Identifier: BSD-3-Clause
// Collectives that go on while the program computes.
#pragma once

#include <atomic>
#include <cstdint>
#include <exception>
#include <optional>

#include "collectives/algorithm.hpp"
#include "mpi/node_board.hpp"
#include "mpi/transport.hpp"

namespace offbeat {

class Communicator;

// One collective under way: begun by the program and not yet complete.
//
// Operations of one communicator have lanes and a stage of the board of their own, and never wait for one
// another as long as there is a stage for each. One more starts when the operation before it on its stage is
// complete; the program does not wait for that either.
class Operation {
 public:
  Operation(Communicator& communicator, const Call& call);
  Operation(const Operation&) = delete;
  Operation& operator=(const Operation&) = delete;
  ~Operation();

  // Does what can be done now. True: it is complete. Throws CommunicationError if it failed.
  [[nodiscard]] bool test();
  // Returns when it is complete. Throws CommunicationError if it failed.
  void wait();

 private:
  friend class Communicator;
  friend class OperationsUnderWay;

  [[nodiscard]] bool is_complete() const { return is_complete_.load(std::memory_order_acquire); }
  void start();
  // True: it got further.
  bool advance() noexcept;
  void end() noexcept;
  void rethrow_if_failed() const {
    if (failure_) std::rethrow_exception(failure_);
  }

  Communicator* communicator_;
  Reduction reduction_;
  Call call_;
  const Expression* expression_ = nullptr;
  std::uint64_t number_ = 0;           // of the call on its communicator
  int index_ = 0;                      // of its stage and of its tags
  NodeBoard::Stage* stage_ = nullptr;  // null: there is no board
  std::optional<MpiTransport> transport_;
  Task task_{};
  bool has_started_ = false;
  Operation* before_ = nullptr;  // still on the same stage
  Operation* after_ = nullptr;
  Operation* next_ = nullptr;  // of those under way
  std::exception_ptr failure_;
  std::atomic<bool> is_complete_{true};
};

// The operations under way in this process. Whoever waits advances them all: MPI promises progress in every
// call that waits, whatever it waits for.
class OperationsUnderWay {
 public:
  [[nodiscard]] bool any() const { return first_.load(std::memory_order_relaxed) != nullptr; }
  // Unless another thread does so, or this one further up. True: one of them got further.
  bool advance() noexcept;

  // Operations begin, advance and end in turns of one thread at a time.
  class Turn {
   public:
    explicit Turn(OperationsUnderWay& all) : all_(all) {
      while (all_.is_taken_.test_and_set(std::memory_order_acquire)) sched_yield();
    }
    ~Turn() { all_.is_taken_.clear(std::memory_order_release); }
    Turn(const Turn&) = delete;
    Turn& operator=(const Turn&) = delete;

   private:
    OperationsUnderWay& all_;
  };
  // In a turn.
  void add(Operation& operation);
  void remove(Operation& operation) noexcept;

 private:
  std::atomic_flag is_taken_{};
  std::atomic<Operation*> first_{nullptr};
};

extern constinit OperationsUnderWay operations_under_way;

}  // namespace offbeat
