// SPDX-License-Identifier: BSD-3-Clause
// A collective that proceeds while the program computes is an `Operation`.
#pragma once

#include <atomic>
#include <cstdint>
#include <exception>
#include <mutex>
#include <optional>

#include "base/pool.hpp"
#include "base/spin_lock.hpp"
#include "collectives/algorithm.hpp"
#include "mpi/communicators/node_board.hpp"
#include "mpi/communicators/transport.hpp"

namespace offbeat {

class Communicator;

// A function to call when an operation is complete or has failed; see OperationsUnderWay::settle().
struct Sequel {
  void (*call)(void* state) noexcept = nullptr;
  void* state = nullptr;
};

// One collective under way: begun by the program and not complete yet.
//
// Each operation of a communicator has its own lanes and its own stage of the board. If there are enough
// stages, operations never wait for one another. Otherwise an operation starts when its predecessor on the
// stage is complete; the program does not wait for that either.
class Operation {
 public:
  // `bytes` is the length of the call (Call::length).
  Operation(Communicator& communicator, const Call& call, std::size_t bytes, Sequel sequel = {});
  Operation(const Operation&) = delete;
  Operation& operator=(const Operation&) = delete;
  ~Operation();
  static void* operator new(std::size_t bytes) { return pool::allocate(bytes); }
  static void operator delete(void* memory, std::size_t bytes) { pool::release(memory, bytes); }

  // Advances as far as it can without waiting. Returns true if the operation is complete. Throws
  // CommunicationError if it failed.
  [[nodiscard]] bool test();
  // Returns when the operation is complete. Throws CommunicationError if it failed.
  void wait();
  // Returns when an operation with a sequel is complete. The sequel handles a failure.
  void wait_for_sequel() noexcept;

  // Returns true if the operation is complete. An operation with a sequel is complete just before the sequel
  // is called.
  [[nodiscard]] bool is_complete() const { return is_complete_.load(std::memory_order_acquire); }
  // Rethrows the failure of a complete operation.
  void rethrow_if_failed() const {
    if (failure_) std::rethrow_exception(failure_);
  }

 private:
  friend class Communicator;
  friend class OperationsUnderWay;

  void start();
  // Advances without waiting. Returns true if the operation has advanced.
  bool advance(HostCalls calls) noexcept;
  void end() noexcept;

  Communicator* communicator_;
  Reduction reduction_;
  Call call_;
  const std::size_t bytes_;
  const Expression* expression_ = nullptr;
  const Immediate* immediate_ = nullptr;  // the immediate form that runs it; null: its task does
  const StandInCopies* stand_ins_ = nullptr;
  std::uint64_t number_ = 0;           // counts the calls on its communicator
  int index_ = 0;                      // the index of its stage and of its tags
  NodeBoard::Stage* stage_ = nullptr;  // null: the communicator has no board
  // Belongs to the communicator; the operations of a stage use it one after the other.
  MpiTransport* transport_ = nullptr;
  Task task_{};
  bool has_started_ = false;
  Operation* before_ = nullptr;  // its predecessor on the stage, until that is complete
  Operation* after_ = nullptr;
  Operation* next_ = nullptr;  // in the list of operations that are announced, under way, or over
  Sequel sequel_;
  std::exception_ptr failure_;
  std::atomic<bool> is_complete_{true};
};

// The operations under way in this process. Any call that waits advances all of them, because MPI promises
// progress in every such call. HostProgress advances them while the program waits inside the host.
class OperationsUnderWay {
 public:
  [[nodiscard]] bool any() const {
    return first_.load(std::memory_order_relaxed) != nullptr ||
           announced_count_.load(std::memory_order_relaxed) != 0;
  }
  // Queues the operation; the next thread that runs the progress loop starts it. Never blocks.
  void announce(Operation& operation) noexcept;
  // Advances all operations once. Does nothing if another thread, or a caller further up in this thread, is
  // doing so. Returns true if an operation has advanced.
  bool advance(HostCalls calls) noexcept;
  // Calls the sequels of operations that are over. Sequels call the host. So call this only in a thread of
  // the program, and not from inside the host.
  void settle() noexcept;
  // Destroys communicators that the program has freed and whose last operation is over. Call it only where
  // settle() may be called.
  void clear() noexcept;
  // Returns how many times threads have advanced the operations, to detect that one has done so.
  [[nodiscard]] std::uint64_t looks() const { return looks_.load(std::memory_order_relaxed); }

  // A thread must hold the lock to begin, advance or end operations.
  class Lock {
   public:
    explicit Lock(OperationsUnderWay& all) : guard_(all.lock_) { all.take_announced(); }

   private:
    const std::lock_guard<SpinLock> guard_;
  };
  // Call these while you hold the lock.
  void add(Operation& operation);
  void remove(Operation& operation) noexcept;
  void add_over(Operation& operation) noexcept;
  void add_abandoned(Communicator& communicator) noexcept;

 private:
  // Call this while you hold the lock.
  void take_announced() noexcept;

  SpinLock lock_;
  std::atomic<Operation*> first_{nullptr};
  Operation* next_to_advance_ = nullptr;
  std::atomic<Operation*> announced_{nullptr};  // newest first
  std::atomic<int> announced_count_{0};         // not yet taken by take_announced()
  std::atomic<Operation*> over_{nullptr};       // waiting for their sequels to be called
  std::atomic<Communicator*> abandoned_{nullptr};
  std::atomic<std::uint64_t> looks_{0};
};

extern constinit OperationsUnderWay operations_under_way;

}  // namespace offbeat
