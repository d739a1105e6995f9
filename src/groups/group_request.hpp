// SPDX-License-Identifier: BSD-3-Clause
// A GroupRequest is something that was begun in a group: a call of a collective, or a message.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "base/pool.hpp"
#include "base/time.hpp"
#include "groups/begun_timer.hpp"
#include "groups/call_arguments.hpp"
#include "groups/call_record.hpp"
#include "groups/group_observer.hpp"
#include "groups/message_carrier.hpp"
#include "groups/operation.hpp"
#include "groups/request.hpp"
#include "node/device_memory.hpp"

namespace offbeat {

class Group;

// How long a call may wait for other ranks, and what to call when it is over.
struct CallOptions {
  double timeout_s = 0;   // 0: never
  bool as_begun = false;  // Group::run() takes its turn among the calls of begin()
  // Called once, in any thread, when what was begun is over. `failure` is null after success.
  void (*done)(void* state, const std::exception_ptr& failure) = nullptr;
  void* state = nullptr;

  // Returns when a call that begins now has waited too long, by monotonic_ns(); 0: never.
  [[nodiscard]] std::int64_t deadline_ns() const {
    return timeout_s > 0 ? monotonic_ns() + positive_seconds_to_ns(timeout_s) : 0;
  }
};

class GroupRequest : public Operation, public Request {
 public:
  [[nodiscard]] bool test_call() override;
  void wait_for_call() override;

  // Calls the function `done` of the options, then destroys the request.
  static void end(void* request) noexcept;

 protected:
  GroupRequest(Group& group, const Call& call, std::size_t bytes, const CallOptions& options);

  const CallOptions options_;
  const std::int64_t deadline_ns_;  // of monotonic_ns(); 0: none

 private:
  const std::shared_ptr<BegunTimer> timer_;  // a wait may end after the group
  // Called when it is complete, before the program learns of that. A message copies its data to the program.
  virtual void deliver() const = 0;
};

// A call of a collective.
class CollectiveRequest final : public GroupRequest {
 public:
  // `log` and `number` are those of the call; null if no observer wants it.
  CollectiveRequest(Group& group, std::unique_ptr<PreparedCall> call, std::size_t bytes,
                    const CallRecord& record, const CallOptions& options, GroupCallLog* log,
                    std::uint64_t number, const BegunTimer::BegunCall& time);

 private:
  friend class Group;
  [[nodiscard]] bool step(bool& got_further, HostCalls calls) override;
  void abandon() noexcept override {
    Operation::abandon();
    end_time_of_failed();
  }
  void deliver() const override {
    if (log_ != nullptr) [[unlikely]]
      log_->completes(number_);
  }

  // Looks now and then whether the call blocks its caller. Shows for how long, and prints a line if that is
  // very long.
  void look_at_wait();
  void end_time();
  void end_time_of_failed();
  void report_end_of_stall();

  Group& group_;
  std::unique_ptr<PreparedCall> prepared_;
  CallRecord record_;
  GroupCallLog* const log_;
  const std::uint64_t number_;
  const BegunTimer::BegunCall time_;
  BegunTimer::Moment last_look_;
  std::int64_t stalled_since_ns_ = 0;  // 0: no stall was reported
};

// The arguments of a message through the C interface.
struct MessageArguments {
  bool is_send = false;
  int peer = Message::any_rank;
  int tag = 0;
  void* data = nullptr;
  std::size_t bytes = 0;
  ArrivalTarget arrival;
};

// A message. It has no stage of the board: any number of them are under way at once.
class MessageRequest final : public GroupRequest {
 public:
  // `stall_s` is how long a wait lasts before offbeat prints a line (OFFBEAT_STALL_S); 0: forever.
  MessageRequest(Group& group, MessageCarrier& messages, NodeBoard& board, const MessageArguments& arguments,
                 const CallOptions& options, long stall_s);

 private:
  [[nodiscard]] bool step(bool& got_further, HostCalls calls) override;
  [[nodiscard]] bool has_begun() const override { return has_begun_; }
  void abandon() noexcept override;
  void deliver() const override;
  // Throws BoardError if the wait is in vain.
  void look_around(HostCalls calls);
  void look_for_losses();
  // Returns "rank 0 receives 8 bytes from rank 1 with tag 5".
  [[nodiscard]] std::string text() const;

  MessageCarrier& messages_;
  NodeBoard& board_;
  Message message_;
  const bool is_from_any_;
  void* const data_;  // of the program
  DeviceMemory device_;
  std::optional<pool::Block> staged_;  // the same data, if the program's are in the memory of a GPU
  const std::int64_t stall_ns_;
  bool has_begun_ = false;
  std::uint64_t last_look_ = 0;  // of ProcessorClock
  std::int64_t since_ns_ = 0;    // of the first look; 0: there was none
  std::int64_t last_look_for_losses_ns_ = 0;
  bool has_reported_ = false;
};

}  // namespace offbeat
