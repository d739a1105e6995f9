// SPDX-License-Identifier: BSD-3-Clause
#include "groups/group_request.hpp"

#include <cstdio>
#include <string>
#include <utility>

#include "base/error.hpp"
#include "base/log.hpp"
#include "groups/group.hpp"

namespace offbeat {

GroupRequest::GroupRequest(Group& group, const Call& call, std::size_t bytes, const CallOptions& options)
    : Operation(group, call, bytes,
                options.done != nullptr
                    ? Sequel{.call = &GroupRequest::end, .state = this, .in_any_thread = true}
                    : Sequel{}),
      options_(options),
      deadline_ns_(options.deadline_ns()),
      timer_(group.begun_timer_) {}

void GroupRequest::end(void* request) noexcept {
  const std::unique_ptr<GroupRequest> mine(static_cast<GroupRequest*>(request));
  std::exception_ptr failure;
  try {
    mine->rethrow_if_failed();
    mine->deliver();
  } catch (...) {
    failure = std::current_exception();
  }
  mine->options_.done(mine->options_.state, failure);
}

bool GroupRequest::test_call() {
  if (!test()) return false;
  deliver();
  return true;
}

void GroupRequest::wait_for_call() {
  {
    const BegunTimer::Wait waits(*timer_);
    wait();
  }
  deliver();
}

CollectiveRequest::CollectiveRequest(Group& group, std::unique_ptr<PreparedCall> prepared, std::size_t bytes,
                                     const CallRecord& record, const CallOptions& options, GroupCallLog* log,
                                     std::uint64_t number, const BegunTimer::BegunCall& time)
    : GroupRequest(group, prepared->call(), bytes, options),
      group_(group),
      prepared_(std::move(prepared)),
      record_(record),
      log_(log),
      number_(number),
      time_(time),
      last_look_(time.began) {}

// The time of a call also counts while it waits for its turn on the stage.
bool CollectiveRequest::step(bool& got_further, HostCalls calls) {
  for (auto* each = static_cast<CollectiveRequest*>(successor()); each != nullptr;
       each = static_cast<CollectiveRequest*>(each->successor()))
    plan().stage->end_earlier(each->deadline_ns_, each->options_.timeout_s);
  if (Operation::step(got_further, calls)) return true;
  if (!got_further && has_begun() && time_.began.ticks != 0) {
    group_.begun_timer_->show_awaited_in_wait(time_, plan().number);
    look_at_wait();
  }
  return false;
}

// The clock of the caller's thread is a system call, so this does not look often.
void CollectiveRequest::look_at_wait() {
  constexpr std::uint64_t us_between_looks = 4000;
  if (ProcessorClock::now() - last_look_.ticks < us_between_looks * ProcessorClock::ticks_per_us()) return;
  BegunTimer& timer = *group_.begun_timer_;
  const auto [blocked_ns, is_blocked] = timer.look_at(time_, last_look_);
  if (!is_blocked) return timer.hide_awaited(plan().number);
  if (!timer.show_awaited(time_, plan().number, blocked_ns)) return;
  const std::int64_t stall_ns = plan().stage->board.patience.stall.after_ns;
  if (stalled_since_ns_ != 0 || stall_ns == 0 || blocked_ns < stall_ns) return;
  stalled_since_ns_ = monotonic_ns() - blocked_ns;
  run_unless_out_of_memory([&] { plan().stage->report_stall(blocked_ns, false); });
}

void CollectiveRequest::report_end_of_stall() {
  if (stalled_since_ns_ == 0) return;
  run_unless_out_of_memory([&] { plan().stage->report_stall(monotonic_ns() - stalled_since_ns_, true); });
}

void CollectiveRequest::end_time_of_failed() {
  report_end_of_stall();
  group_.begun_timer_->forget(time_);
}

void CollectiveRequest::end_time() {
  report_end_of_stall();
  group_.begun_timer_->end(time_, plan().number, *group_.board_, plan().expression);
}

// -- messages

MessageRequest::MessageRequest(Group& group, MessageCarrier& messages, NodeBoard& board,
                               const MessageArguments& arguments, const CallOptions& options, long stall_s)
    : GroupRequest(group, Call{}, arguments.bytes, options),
      messages_(messages),
      board_(board),
      message_{.is_send = arguments.is_send,
               .peer = arguments.peer,
               .tag = arguments.tag,
               .data = static_cast<std::byte*>(arguments.data),
               .bytes = arguments.bytes,
               .arrival = arguments.arrival},
      is_from_any_(arguments.peer == Message::any_rank),
      data_(arguments.data),
      stall_ns_(stall_s * ns_per_s) {
  if (arguments.bytes == 0 || !devices::may_have_memory()) return;
  device_ = DeviceMemory::at(data_);
  if (!device_) return;
  staged_.emplace(arguments.bytes);
  message_.data = staged_->data();
  if (message_.is_send) device_.read(message_.data, data_, message_.bytes);
}

void MessageRequest::deliver() const {
  if (staged_ && !message_.is_send) device_.write(data_, message_.data, message_.bytes);
}

bool MessageRequest::step(bool& got_further, HostCalls calls) {
  got_further = false;
  if (!std::exchange(has_begun_, true)) messages_.begin(message_);
  got_further = message_.is_over || messages_.move(message_);
  if (!message_.is_over) look_around(calls);
  if (message_.is_over && has_reported_)
    run_unless_out_of_memory(
        [&] { say(text() + ": complete after " + seconds_text(monotonic_ns() - since_ns_)); });
  return message_.is_over;
}

void MessageRequest::abandon() noexcept {
  if (has_begun_) messages_.forget(message_);
}

std::string MessageRequest::text() const {
  const std::string peer = is_from_any_ ? "any rank" : "rank " + std::to_string(message_.peer);
  return "rank " + std::to_string(board_.named_rank()) + (message_.is_send ? " sends " : " receives ") +
         std::to_string(message_.bytes) + " bytes " + (message_.is_send ? "to " : "from ") + peer +
         " with tag " + std::to_string(message_.tag);
}

// Looks at the clock, and makes system calls, only now and then.
void MessageRequest::look_around(HostCalls calls) {
  constexpr std::uint64_t us_between_looks = 4000;
  const std::uint64_t now = ProcessorClock::now();
  if (now - last_look_ < us_between_looks * ProcessorClock::ticks_per_us()) return;
  last_look_ = now;
  if (calls == HostCalls::all) board_.let_host_move();
  const std::int64_t now_ns = monotonic_ns();
  if (since_ns_ == 0) since_ns_ = last_look_for_losses_ns_ = now_ns;
  if (deadline_ns_ > 0 && now_ns > deadline_ns_) {
    char limit[32];
    std::snprintf(limit, sizeof limit, "%g", options_.timeout_s);
    throw BoardError(Trouble::timeout, message_.peer >= 0 ? message_.peer : board_.named_rank(),
                     text() + ": it has waited " + limit + " s");
  }
  if (stall_ns_ > 0 && !has_reported_ && now_ns - since_ns_ > stall_ns_) {
    has_reported_ = true;
    run_unless_out_of_memory([&] { say(text() + ": it has waited " + seconds_text(now_ns - since_ns_)); });
  }
  constexpr std::int64_t between_looks_for_losses_ns = 100 * ns_per_ms;
  if (now_ns - last_look_for_losses_ns_ < between_looks_for_losses_ns) return;
  last_look_for_losses_ns_ = now_ns;
  look_for_losses();
}

// What a rank has sent before it died or left still counts, so this looks for messages once more. A receive
// from any rank waits while there is a rank that may send, but a dead rank may have been the one to do so. A
// rank of another node counts as alive.
void MessageRequest::look_for_losses() {
  std::optional<BoardError> loss;
  const Locality& where = board_.locality();
  if (message_.peer != Message::any_rank) {
    if (where.membership.node_of(message_.peer) != where.node) return;
    loss = board_.find_loss(where.membership.member_of(message_.peer));
  } else {
    int others = where.membership.ranks() - board_.board().size;
    for (int rank = 0; rank < board_.board().size && !loss; ++rank) {
      if (rank == board_.board().rank) continue;
      loss = board_.find_loss(rank);
      if (loss && board_.has_left(rank))
        loss.reset();
      else
        ++others;
    }
    if (others == 0) loss = board_.find_loss(board_.board().rank == 0 ? 1 : 0);
  }
  if (!loss) return;
  while (!message_.is_over && messages_.move(message_)) {
  }
  if (!message_.is_over) throw BoardError(loss->trouble, loss->rank, text() + ", but " + loss->what());
}

}  // namespace offbeat
