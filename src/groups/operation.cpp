// SPDX-License-Identifier: BSD-3-Clause
#include "groups/operation.hpp"

#include <sched.h>

#include <optional>
#include <utility>

#include "groups/operations_under_way.hpp"

namespace offbeat {

Task OperationsOwner::start_task(Operation& operation, Endpoint net) {
  const OperationPlan& plan = operation.plan();
  const auto run = plan.immediate != nullptr ? plan.immediate->run_in_steps : plan.expression->algorithm->run;
  return run(net, operation.call(), *plan.expression);
}

void OperationsOwner::accept(Operation& operation) noexcept {
  if (operation.plan_.index == OperationPlan::no_index) {
    begin_use();
    return operations_under_way.add(operation);
  }
  Operation*& last = last_on_stage_[static_cast<std::size_t>(operation.plan_.index)];
  operation.before_ = last;
  if (last != nullptr) last->after_ = &operation;
  last = &operation;
  begin_use();
  if (operation.before_ == nullptr) operations_under_way.add(operation);
}

void OperationsOwner::forget(const Operation* operation, int index) noexcept {
  if (index != OperationPlan::no_index) {
    Operation*& last = last_on_stage_[static_cast<std::size_t>(index)];
    if (last == operation) last = nullptr;
  }
  if (end_use()) operations_under_way.add_abandoned(*this);
}

Operation::Operation(OperationsOwner& owner, const Call& call, std::size_t bytes, Sequel sequel)
    : owner_(&owner),
      reduction_(call.op != nullptr ? *call.op : Reduction{}),
      call_(call),
      bytes_(bytes),
      sequel_(sequel) {
  if (call.op != nullptr) call_.op = &reduction_;
}

// An operation destroyed after MPI_Finalize may still be the target of messages, so its frame is leaked on
// purpose. Its communicator stays forever, too.
Operation::~Operation() {
  if (is_complete()) return;
  const OperationsUnderWay::Lock lock(operations_under_way);
  operations_under_way.remove(*this);
  if (before_ != nullptr) before_->after_ = after_;
  if (after_ != nullptr) {
    after_->before_ = before_;
    if (before_ == nullptr) operations_under_way.add(*after_);
  }
  task_.leak();
}

bool Operation::test() {
  if (!is_complete()) operations_under_way.advance(HostCalls::all);
  operations_under_way.settle();
  if (!is_complete()) return false;
  rethrow_if_failed();
  return true;
}

// Keeps the owner while a thread waits. Another thread may free the communicator as soon as the operation has
// ended, which is before its sequel runs.
class Operation::OwnerInUse {
 public:
  explicit OwnerInUse(const Operation& operation) {
    const OperationsUnderWay::Lock lock(operations_under_way);
    if (operation.has_ended_) return;
    owner_ = operation.owner_;
    owner_->begin_use();
  }
  OwnerInUse(const OwnerInUse&) = delete;
  OwnerInUse& operator=(const OwnerInUse&) = delete;
  ~OwnerInUse() {
    if (owner_ == nullptr) return;
    const OperationsUnderWay::Lock lock(operations_under_way);
    if (owner_->end_use()) operations_under_way.add_abandoned(*owner_);
  }
  // Returns false if the operation has ended.
  explicit operator bool() const { return owner_ != nullptr; }

 private:
  OperationsOwner* owner_ = nullptr;
};

void Operation::wait() {
  if (is_complete()) return rethrow_if_failed();
  const OwnerInUse owner(*this);
  while (!is_complete()) {
    if (!owner) {
      operations_under_way.settle();
      sched_yield();
      continue;
    }
    const Patience patience = owner_->patience_of(plan_.index);
    Patience::Wait wait(patience);
    // A sequel further up in this thread may wait here. The others must not wait for its end.
    while (!operations_under_way.advance(HostCalls::all) && !is_complete()) {
      operations_under_way.settle();
      wait.pause();
    }
    operations_under_way.settle();
  }
  rethrow_if_failed();
}

// Exists while a thread waits for an operation that was not over at once.
class Operation::ShownWait {
 public:
  ShownWait(OperationsOwner& owner, const Operation& awaited) : owner_(owner) { owner.show_wait(&awaited); }
  ShownWait(const ShownWait&) = delete;
  ShownWait& operator=(const ShownWait&) = delete;
  ~ShownWait() { owner_.show_wait(nullptr); }

 private:
  OperationsOwner& owner_;
};

// The pause gives the host its turns. If a turn throws because another rank has given up, the operation fails
// when it is advanced next.
void Operation::wait_for_sequel() noexcept {
  if (is_complete()) return;
  const OwnerInUse owner(*this);
  std::optional<ShownWait> shown;
  while (!is_complete()) {
    if (!owner) {
      operations_under_way.settle();
      if (!is_complete()) sched_yield();  // another thread settles it
      continue;
    }
    const Patience patience = owner_->patience_of(plan_.index);
    Patience::Wait wait(patience);
    auto calls = HostCalls::messages;
    while (!operations_under_way.advance(calls)) {
      operations_under_way.settle();  // the sequel may belong to an operation that another thread has ended
      if (is_complete()) break;
      if (!shown) shown.emplace(*owner_, *this);
      try {
        wait.pause();
      } catch (...) {
        calls = HostCalls::all;
      }
    }
    operations_under_way.settle();
  }
}

void Operation::start() {
  has_started_ = true;
  owner_->prepare(*plan_.transport, plan_.index);
  if (plan_.stage != nullptr) {
    Board& board = plan_.stage->board;
    board.waiters = plan_.transport;
    board.enter(plan_.number, call_.collective, bytes_);
    board.set_history(plan_.history);
    plan_.stage->begin_use(plan_.expression->lease(call_, owner_->rank_, owner_->size_, board.size));
    if (plan_.stand_ins != nullptr) plan_.stage->register_windows(*plan_.stand_ins);
  }
  plan_.transport->serve(call_.collective, plan_.history);
  task_ = owner_->start_task(
      *this, Endpoint(*plan_.transport, owner_->rank_, owner_->size_, plan_.expression->lanes()));
  plan_.transport->begin(task_, plan_.stand_ins);
}

bool Operation::is_settled() const {
  DeviceCopies* const copies = plan_.stand_ins != nullptr ? plan_.stand_ins->device_copies() : nullptr;
  return copies == nullptr || copies->are_copies_complete();
}

bool Operation::step(bool& got_further, HostCalls calls) {
  got_further = false;
  if (!has_started_) {
    if (!is_settled()) return false;
    start();
  }
  if (!is_delivering_) {
    if (!plan_.transport->advance(task_, got_further, calls)) return false;
    owner_->check_end(*this);
    is_delivering_ = true;
    if (plan_.stand_ins != nullptr) plan_.stand_ins->begin_delivery();
  }
  return is_settled();
}

void Operation::abandon() noexcept {
  if (has_started_) plan_.transport->abandon(task_);
}

// The messages of one owner begin in their order. So the walk ends at the last one of this owner that has
// begun.
void Operation::advance_first() noexcept {
  Operation* first = this;
  for (Operation* each = is_message() ? previous_ : nullptr; each != nullptr; each = each->previous_) {
    if (each->owner_ != owner_ || !each->is_message()) continue;
    if (each->has_begun()) break;
    first = each;
  }
  while (first != this) std::exchange(first, first->next_)->advance(HostCalls::messages);
  advance(HostCalls::messages);
}

bool Operation::advance(HostCalls calls) noexcept {
  if (is_complete() || before_ != nullptr) return false;
  calls = owner_->calls_of_operation(calls);
  if (calls == HostCalls::none && needs_host()) return false;
  bool is_over = false;
  bool got_further = true;
  try {
    owner_->require_intact();
    try {
      is_over = step(got_further, calls);
    } catch (...) {
      owner_->break_down_in(*this);
      throw;
    }
  } catch (...) {
    failure_ = std::current_exception();
    abandon();
    is_over = true;
  }
  if (is_over) end();
  return got_further;
}

void Operation::end() noexcept {
  operations_under_way.expect_over(*this);
  operations_under_way.remove(*this);
  if (plan_.stage != nullptr && has_started_) plan_.stage->end_use();
  task_ = {};  // in the thread that advanced it: the frame goes to this thread's pool
  if (after_ != nullptr) {
    after_->before_ = nullptr;
    operations_under_way.add(*after_);
  }
  // If the program has freed the owner, the thread that destroys it first calls the sequels that add_over()
  // has listed. So add_over() must come before forget().
  OperationsOwner& owner = *owner_;
  const int index = plan_.index;
  has_ended_ = true;
  // Another thread may destroy the operation as soon as it is listed in add_over() or marked complete. Do not
  // touch it after that.
  if (sequel_.call != nullptr) {
    operations_under_way.add_over(*this);
  } else {
    is_complete_.store(true, std::memory_order_release);
  }
  owner.forget(this, index);
}

}  // namespace offbeat
