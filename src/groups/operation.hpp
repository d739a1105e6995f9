// SPDX-License-Identifier: BSD-3-Clause
// An Operation is a collective, or a message of a group, that proceeds while the program computes.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <exception>
#include <utility>

#include "base/pool.hpp"
#include "collectives/algorithm.hpp"
#include "groups/board_transport.hpp"
#include "groups/node_board.hpp"

namespace offbeat {

class Operation;

// What happens to the operations of an owner when the program ends the host MPI.
enum class WhenHostEnds : std::uint8_t {
  go_on,         // they need no host
  go_on_if_can,  // those on the board of one node go on; the program must not wait for the others any more
  fail           // they are over, with an error
};

// What has operations under way: a communicator, or a group.
class OperationsOwner {
 public:
  OperationsOwner(const OperationsOwner&) = delete;
  OperationsOwner& operator=(const OperationsOwner&) = delete;
  virtual ~OperationsOwner() = default;

 protected:
  OperationsOwner(int rank, int size, WhenHostEnds when_host_ends)
      : when_host_ends_(when_host_ends), rank_(rank), size_(size) {}
  WhenHostEnds when_host_ends_;

  // Record that an operation is under way, and that it is over. Call both while you hold the lock. forget()
  // does not use the operation, which may be gone.
  void accept(Operation& operation) noexcept;
  void forget(const Operation* operation, int index) noexcept;

  // Returns the task of an operation that starts.
  [[nodiscard]] virtual Task start_task(Operation& operation, Endpoint net);

  // Returns true if a thread of offbeat waits for an operation of this. Call it while you hold the lock, and
  // before you destroy this.
  [[nodiscard]] bool is_watched() const { return watchers_ > 0; }

  // Returns RoundNumber::history for a collective that begins. The history of the next one includes it.
  [[nodiscard]] std::uint64_t take_history(Collective begun) {
    return std::exchange(history_, RoundNumber::next_history(history_, begun));
  }

  const int rank_;
  const int size_;

 private:
  friend class Operation;
  friend class OperationsUnderWay;

  // Returns how to wait for operation `index` of those under way.
  [[nodiscard]] virtual Patience patience_of(int index) = 0;
  // Prepares a transport for operation `index` of those under way.
  virtual void prepare(BoardTransport& transport, int index) = 0;
  // Returns what an operation may call, if the code that advances it may make `calls`.
  [[nodiscard]] virtual HostCalls calls_of_operation(HostCalls calls) const {
    return calls == HostCalls::if_threads ? HostCalls::none : calls;
  }
  // Called when a thread of the program waits for an operation with a sequel, and with null when that ends.
  virtual void show_wait(const Operation* /*awaited*/) noexcept {}
  // Called when an operation is over, unless it has failed. May throw CommunicationError: then it has failed.
  virtual void check_end(Operation&) {}
  // Throws CommunicationError after an earlier failure.
  virtual void require_intact() const = 0;
  // Ends all use of the board and the messages. Called in an exception's handler.
  virtual void break_down() = 0;
  // Called instead of break_down() if the program ends the host MPI before operations are over.
  virtual void break_down_with_host() {}
  // Called instead of break_down() if one operation has failed.
  virtual void break_down_in(Operation&) { break_down(); }
  // Count the operations. end_use() returns true if nothing uses this object any more. The caller then
  // destroys it.
  virtual void begin_use() noexcept = 0;
  [[nodiscard]] virtual bool end_use() noexcept = 0;

  std::array<Operation*, NodeBoard::most_stages> last_on_stage_{};  // the last one under way, or null
  OperationsOwner* next_abandoned_ = nullptr;
  std::uint64_t history_ = 0;
  int watchers_ = 0;  // the threads in OperationsUnderWay::watch()
};

// A function to call when an operation is complete or has failed; see OperationsUnderWay::settle().
struct Sequel {
  void (*call)(void* state) noexcept = nullptr;
  void* state = nullptr;
  bool in_any_thread = false;  // false: only a thread of the program may call it, and not inside the host
};

// How one operation is carried out.
struct OperationPlan {
  static constexpr int no_index = -1;
  const Expression* expression = nullptr;
  const Immediate* immediate = nullptr;  // the immediate form that runs it; null: its task does
  // What copies vectors that are not in host memory, or have gaps. The operation starts when copies from a
  // device that have begun are complete.
  const StandInCopies* stand_ins = nullptr;
  std::uint64_t number = 0;           // counts the calls of its owner
  std::uint64_t history = 0;          // see OperationsOwner::take_history()
  int index = 0;                      // the index of its stage and of its tags; no_index: it has none
  NodeBoard::Stage* stage = nullptr;  // null: there is no board
  // Belongs to the owner; the operations of a stage use it one after the other.
  BoardTransport* transport = nullptr;
  bool advances_in_thread = false;  // a thread of offbeat sleeps until its messages come in, and advances it
};

// One collective or message under way: begun by the program and not complete yet.
//
// Each collective of a communicator or group has its own lanes and its own stage of the board; a message has
// neither (OperationPlan::no_index). If there are enough stages, operations never wait for one another.
// Otherwise an operation starts when its predecessor on the stage is complete; the program does not wait for
// that either.
class Operation {
 public:
  // `bytes` is the length of the call (Call::length).
  Operation(OperationsOwner& owner, const Call& call, std::size_t bytes, Sequel sequel = {});
  Operation(const Operation&) = delete;
  Operation& operator=(const Operation&) = delete;
  virtual ~Operation();
  static void* operator new(std::size_t bytes) { return pool::allocate(bytes); }
  static void operator delete(void* memory, std::size_t bytes) { pool::release(memory, bytes); }

  // Makes the operation one that is under way. accept() or announce() must follow.
  void prepare(const OperationPlan& plan) {
    plan_ = plan;
    has_ended_ = false;
    is_complete_.store(false, std::memory_order_relaxed);
  }
  // Advances the operation in its owner's thread, which begins it. Messages must begin in the order of their
  // calls, so the owner's earlier messages that have not begun are advanced first. Call this while you hold
  // the lock.
  void advance_first() noexcept;

  // Advances as far as it can without waiting. Returns true if the operation is complete. Throws
  // CommunicationError if it failed.
  [[nodiscard]] bool test();
  // Returns when the operation is complete. Throws CommunicationError if it failed.
  void wait();
  // Returns when an operation with a sequel is complete. The sequel handles a failure.
  void wait_for_sequel() noexcept;

  [[nodiscard]] const OperationPlan& plan() const { return plan_; }
  [[nodiscard]] const Call& call() const { return call_; }
  // Returns true if a thread of offbeat should stay awake until the operation is over.
  [[nodiscard]] bool is_urgent() const { return sequel_.call != nullptr && sequel_.in_any_thread; }

  // Returns true if the operation is complete. An operation with a sequel is complete just before the sequel
  // is called.
  [[nodiscard]] bool is_complete() const { return is_complete_.load(std::memory_order_acquire); }
  // Rethrows the failure of a complete operation.
  void rethrow_if_failed() const {
    if (failure_) std::rethrow_exception(failure_);
  }

 protected:
  // Advances without waiting, and sets `got_further` if that was possible. Returns true if the operation is
  // over. Throws what ends it.
  [[nodiscard]] virtual bool step(bool& got_further, HostCalls calls);
  // Returns true once step() has begun the operation.
  [[nodiscard]] virtual bool has_begun() const { return has_started_; }
  // Forgets what is under way, after a failure.
  virtual void abandon() noexcept;
  // Returns the next operation queued on the same stage, or null. It starts when this one completes. The
  // caller must hold the lock.
  [[nodiscard]] Operation* successor() const { return after_; }

 private:
  friend class OperationsOwner;
  friend class OperationsUnderWay;

  class OwnerInUse;
  class ShownWait;

  [[nodiscard]] bool is_message() const { return plan_.index == OperationPlan::no_index; }
  [[nodiscard]] bool needs_host() const {
    return plan_.expression == nullptr ||
           (plan_.expression->algorithm->needs.board != OnBoard::one_node && plan_.transport->needs_host());
  }
  void start();
  // Returns true if the copies from and to a device are complete.
  [[nodiscard]] bool is_settled() const;
  // Advances without waiting. Returns true if the operation has advanced.
  bool advance(HostCalls calls) noexcept;
  void end() noexcept;

  OperationsOwner* owner_;
  Reduction reduction_;
  Call call_;
  const std::size_t bytes_;
  OperationPlan plan_;
  Task task_{};
  bool has_started_ = false;
  bool is_delivering_ = false;   // the task is over, and results are on their way to a device
  bool has_ended_ = false;       // guarded by the lock; the owner may be gone then
  Operation* before_ = nullptr;  // its predecessor on the stage, until that is complete
  Operation* after_ = nullptr;
  Operation* next_ = nullptr;      // in the list of operations that are announced, under way, or over
  Operation* previous_ = nullptr;  // in the list of those under way
  Sequel sequel_;
  std::exception_ptr failure_;
  std::atomic<bool> is_complete_{true};
};

}  // namespace offbeat
