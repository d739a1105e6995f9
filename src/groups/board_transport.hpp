// SPDX-License-Identifier: BSD-3-Clause
// BoardTransport carries out tasks that meet on the board of a node. MpiTransport and NetworkTransport add
// messages.
#pragma once

#include <array>
#include <coroutine>
#include <cstdint>
#include <vector>

#include "collectives/algorithm.hpp"
#include "node/board.hpp"
#include "node/device_copies.hpp"
#include "node/shared_copies.hpp"
#include "transport/endpoint.hpp"
#include "transport/stand_in.hpp"

namespace offbeat {

// HostCalls says which host functions code that advances a task may call. `messages`: those that send and
// test messages. `all`: also turns of the host, but not from inside the host. `if_threads`: all, in a thread
// of offbeat, if the host lets every thread call it.
enum class HostCalls : std::uint8_t { none, if_threads, messages, all };

class BoardTransport : public Transport, public BoardWaiters {
 public:
  explicit BoardTransport(const Patience& patience) : patience_(patience) {}

  // Uses the board of the node's ranks, which must outlive this. Its patience replaces that of the transport,
  // because the board knows more.
  void use(Board& board);

  // There are no messages here.
  [[nodiscard]] bool start(Transfer& transfer) override;
  // Returns true if messages are those of the host MPI.
  [[nodiscard]] virtual bool needs_host() const { return false; }
  [[nodiscard]] bool start(Computation& computation) final {
    if (stand_ins_ != nullptr) [[unlikely]] {
      if (devices_ != nullptr && devices_->uses_device_parts(computation))
        return start_on_device(computation);
      if (computation.operand_count == 1 &&
          stand_ins_->copy(computation.destination.data,
                           static_cast<const std::byte*>(computation.operands[0]),
                           computation.destination.bytes()))
        return true;
    }
    if (computation.to_shared && computation.operand_count == 1) {
      copies_[index_of(collective_)].copy(computation.destination.data, computation.operands[0],
                                          computation.destination.bytes());
    } else {
      computation.perform();
    }
    return true;
  }

  void prefetch(const ConstVector& source, const Vector& place, bool for_next_round) final {
    if (devices_ != nullptr) [[unlikely]]
      devices_->prefetch(source, place, for_next_round);
  }
  [[nodiscard]] bool try_to_end_round() final { return devices_ == nullptr || end_round_or_suspend(); }
  void resume_when_round_ends(std::coroutine_handle<> waiter) final {
    devices_->resume_when_round_ends(waiter);
  }

  [[nodiscard]] bool others_can_run() const final { return running_coroutines > 1; }
  void wait_for_board(std::coroutine_handle<> waiter, bool begins) final {
    at_board_.push_back(waiter);
    got_further_ = got_further_ || begins;
  }

  // Runs a task to its end, and waits. Throws what the task throws. After a CommunicationError no message is
  // left in flight, and the ranks must not use their board and messages again. `stand_ins` makes copies from
  // and to the task's stand-ins; null if it has none.
  void drive(Task& task, const StandInCopies* stand_ins);

  // Run a task without waiting, one task at a time. begin() runs it up to the first wait. advance() does what
  // can be done now, and returns true if the task has ended. Both throw like drive().
  void begin(Task& task, const StandInCopies* stand_ins);
  [[nodiscard]] bool advance(Task& task, bool& got_further, HostCalls calls);

  // Forgets the messages and copies of a task that will not run to its end. It does no harm to call this
  // twice.
  void abandon(Task& task) noexcept;

  // Sets the collective that the next task carries out. `history`: RoundNumber::history of a collective that
  // proceeds while the program computes; 0 for a blocking one.
  void serve(Collective collective, std::uint64_t history = 0) {
    collective_ = collective;
    first_lane_ = static_cast<int>((static_cast<std::uint64_t>(collective) + history) % most_first_lanes) *
                  (most_lanes / most_first_lanes);
  }

  // Returns how to wait for messages and for the board.
  [[nodiscard]] const Patience& patience() const { return patience_; }

 protected:
  // Returns the lane of a transfer's messages. Each collective begins with another lane, and the lane of one
  // that proceeds also depends on its history. If one rank was left out of a call, because the host rejected
  // it there, its next call finds no messages of that one, unless it is of the same collective.
  [[nodiscard]] int lane_of(const Transfer& transfer) const {
    return (transfer.lane + first_lane_) % most_lanes;
  }
  // Returns true if something other than a message can get further.
  [[nodiscard]] bool awaits_others() const {
    return !at_board_.empty() || (devices_ != nullptr && devices_->is_working());
  }
  Patience patience_;  // for waits with messages under way, for which no bell rings

 private:
  [[nodiscard]] virtual bool has_messages() const { return false; }
  // Tests all messages once and resumes the waiters of those that are complete. Returns false if nothing
  // moved.
  virtual bool test_messages();
  // Called after an error. Forgets all messages. Returns true if some were under way.
  virtual bool abandon_messages() noexcept { return false; }

  // Lets the waiters for the board look again.
  void look_at_board();
  // Tests messages and looks at the board, once. Returns false if no message moved and each waiter for the
  // board still waits for the same thing.
  bool move();
  // Returns true if the task has ended. Throws what the task, or a branch of it, threw.
  [[nodiscard]] bool is_over(const Task& task) const;
  void use(const StandInCopies* stand_ins) {
    stand_ins_ = stand_ins;
    devices_ = stand_ins != nullptr ? stand_ins->device_copies() : nullptr;
  }
  // Starts a computation with vectors on a device.
  [[nodiscard]] bool start_on_device(Computation& computation);
  // Returns true if the copies of the round are complete. If no other coroutine can run, it waits for them.
  [[nodiscard]] bool end_round_or_suspend();
  template <class Body>
  void guarded(Task& task, Body&& body);

  static constexpr int most_first_lanes = 32;
  static_assert(collectives.size() < most_first_lanes);
  Collective collective_ = Collective::allreduce;
  int first_lane_ = 0;
  std::array<SharedCopies, collectives.size()> copies_;
  const StandInCopies* stand_ins_ = nullptr;  // for the vectors of the task
  DeviceCopies* devices_ = nullptr;           // for those that are on a device
  std::vector<std::coroutine_handle<>> at_board_;
  std::vector<std::coroutine_handle<>> looking_;
  bool got_further_ = false;  // true if a waiter for the board has begun a new wait since the last look
};

}  // namespace offbeat
