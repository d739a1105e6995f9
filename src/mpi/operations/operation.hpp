// SPDX-License-Identifier: BSD-3-Clause
// Collectives that proceed while the program computes.
#pragma once

#include <atomic>
#include <cstdint>
#include <exception>
#include <optional>

#include "base/pool.hpp"
#include "collectives/algorithm.hpp"
#include "mpi/communicators/node_board.hpp"
#include "mpi/communicators/transport.hpp"

namespace offbeat {

class Communicator;

// What follows when an operation is complete, or has failed: see OperationsUnderWay::settle().
struct Sequel {
  void (*call)(void* state) noexcept = nullptr;
  void* state = nullptr;
};

// One collective under way: begun by the program and not yet complete.
//
// Each operation of a communicator has its own lanes and its own stage of the board. Operations never wait
// for one another as long as there is a stage for each. A further one starts when its predecessor on the
// stage is complete; the program does not wait for that either.
class Operation {
 public:
  // `bytes`: the length of the call.
  Operation(Communicator& communicator, const Call& call, std::size_t bytes, Sequel sequel = {});
  Operation(const Operation&) = delete;
  Operation& operator=(const Operation&) = delete;
  ~Operation();
  static void* operator new(std::size_t bytes) { return pool::allocate(bytes); }
  static void operator delete(void* memory, std::size_t bytes) { pool::release(memory, bytes); }

  // Advances as far as possible now. True: the operation is complete. Throws CommunicationError if it failed.
  [[nodiscard]] bool test();
  // Returns when the operation is complete. Throws CommunicationError if it failed.
  void wait();
  // The same for operations with a sequel, which deals with a failure.
  void wait_for_sequel() noexcept;

  // One with a sequel is complete when that is about to be called.
  [[nodiscard]] bool is_complete() const { return is_complete_.load(std::memory_order_acquire); }
  // Throws what the operation failed with. It is complete.
  void rethrow_if_failed() const {
    if (failure_) std::rethrow_exception(failure_);
  }

 private:
  friend class Communicator;
  friend class OperationsUnderWay;

  void start();
  // True: the operation got further.
  bool advance(HostCalls calls) noexcept;
  void end() noexcept;

  Communicator* communicator_;
  Reduction reduction_;
  Call call_;
  const std::size_t bytes_;
  const Expression* expression_ = nullptr;
  const Immediate* immediate_ = nullptr;  // the form of it that is taken; null: its task
  std::uint64_t number_ = 0;              // of the call on its communicator
  int index_ = 0;                         // of its stage and of its tags
  NodeBoard::Stage* stage_ = nullptr;     // null: there is no board
  MpiTransport* transport_ = nullptr;     // of the communicator; the operations of a stage use it in turn
  Task task_{};
  bool has_started_ = false;
  Operation* before_ = nullptr;  // still on the same stage
  Operation* after_ = nullptr;
  Operation* next_ = nullptr;  // of those announced, under way, or over
  Sequel sequel_;
  std::exception_ptr failure_;
  std::atomic<bool> is_complete_{true};
};

// The operations under way in this process. Any waiting call advances them all, because MPI promises progress
// in every call that waits, whatever it waits for. While the program waits inside the host, HostProgress
// does.
class OperationsUnderWay {
 public:
  [[nodiscard]] bool any() const {
    return first_.load(std::memory_order_relaxed) != nullptr ||
           announced_count_.load(std::memory_order_relaxed) != 0;
  }
  // The next one to advance operations begins with this one. Waits for nobody.
  void announce(Operation& operation) noexcept;
  // Does nothing if another thread, or a caller further up in this one, is at it. True: an operation got
  // further.
  bool advance(HostCalls calls) noexcept;
  // Calls the sequels of operations that are over. These call the host: not from inside it, nor in a thread
  // that is not the program's.
  void settle() noexcept;
  // Destroys the communicators that the program has freed and whose last operation is over. Likewise.
  void clear() noexcept;
  // How often any thread has been at it.
  [[nodiscard]] std::uint64_t looks() const { return looks_.load(std::memory_order_relaxed); }

  // A thread must hold the turn to begin, advance or end operations.
  class Turn {
   public:
    explicit Turn(OperationsUnderWay& all) : all_(all) {
      while (all_.is_taken_.test_and_set(std::memory_order_acquire)) sched_yield();
      all_.take_announced();
    }
    ~Turn() { all_.is_taken_.clear(std::memory_order_release); }
    Turn(const Turn&) = delete;
    Turn& operator=(const Turn&) = delete;

   private:
    OperationsUnderWay& all_;
  };
  // Call within a Turn.
  void add(Operation& operation);
  void remove(Operation& operation) noexcept;
  void add_over(Operation& operation) noexcept;
  void add_abandoned(Communicator& communicator) noexcept;

 private:
  // Call within a Turn.
  void take_announced() noexcept;

  std::atomic_flag is_taken_{};
  std::atomic<Operation*> first_{nullptr};
  Operation* next_to_advance_ = nullptr;
  std::atomic<Operation*> announced_{nullptr};  // the last one first
  std::atomic<int> announced_count_{0};         // until they are among those under way
  std::atomic<Operation*> over_{nullptr};       // with sequels to be called
  std::atomic<Communicator*> abandoned_{nullptr};
  std::atomic<std::uint64_t> looks_{0};
};

extern constinit OperationsUnderWay operations_under_way;

}  // namespace offbeat
