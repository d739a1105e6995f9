// SPDX-License-Identifier: BSD-3-Clause
#include "groups/operation.hpp"

#include <sched.h>

#include <utility>

namespace offbeat {

constinit OperationsUnderWay operations_under_way;

namespace {

constinit thread_local bool is_in_sequel = false;

}  // namespace

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

// The pause gives the host its turns. If a turn throws because another rank has given up, the operation fails
// when it is advanced next.
void Operation::wait_for_sequel() noexcept {
  if (is_complete()) return;
  const OwnerInUse owner(*this);
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
    plan_.stage->begin_use(plan_.expression->lease(call_, owner_->rank_, owner_->size_, board.size));
    if (plan_.stand_ins != nullptr) plan_.stage->register_windows(*plan_.stand_ins);
  }
  plan_.transport->serve(call_.collective);
  task_ = owner_->start_task(
      *this, Endpoint(*plan_.transport, owner_->rank_, owner_->size_, plan_.expression->lanes()));
  plan_.transport->begin(task_, plan_.stand_ins);
}

bool Operation::is_settled() const {
  DeviceCopies* const copies = plan_.stand_ins != nullptr ? plan_.stand_ins->on_device() : nullptr;
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

bool Operation::advance(HostCalls calls) noexcept {
  if (is_complete() || before_ != nullptr) return false;
  calls = owner_->calls_of_operation(calls);
  const bool needs_host =
      plan_.expression != nullptr && plan_.expression->algorithm->needs.board != OnBoard::one_node;
  if (calls == HostCalls::none && needs_host) return false;
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

bool OperationsUnderWay::advance(HostCalls calls) noexcept {
  if (!any() || !lock_.try_lock()) return false;
  take_announced();
  looks_.store(looks() + 1, std::memory_order_relaxed);
  bool got_further = false;
  for (Operation* each = first_.load(std::memory_order_relaxed); each != nullptr; each = next_to_advance_) {
    next_to_advance_ = each->next_;  // the operation may end here, and another one may begin
    got_further = each->advance(calls) || got_further;
  }
  lock_.unlock();
  return got_further;
}

void OperationsUnderWay::settle(std::atomic<Operation*>& over) noexcept {
  if (over.load(std::memory_order_relaxed) == nullptr) return;
  while (Operation* const all = over.exchange(nullptr, std::memory_order_acquire)) {
    // Take the one that ended first. The others go back, because its sequel may wait for them.
    Operation* before = nullptr;
    Operation* each = all;
    while (each->next_ != nullptr) before = std::exchange(each, each->next_);
    if (before != nullptr) {
      before->next_ = over.load(std::memory_order_relaxed);
      while (!over.compare_exchange_weak(before->next_, all, std::memory_order_release)) {
      }
    }
    each->is_complete_.store(true, std::memory_order_release);
    const Sequel sequel = each->sequel_;
    if (sequel.in_any_thread) operations_under_way.unsettled_.fetch_sub(1, std::memory_order_relaxed);
    const bool was_in_sequel = std::exchange(is_in_sequel, true);
    sequel.call(sequel.state);  // may destroy the operation
    is_in_sequel = was_in_sequel;
  }
}

void OperationsUnderWay::settle_unless_in_sequel() noexcept {
  if (!is_in_sequel) settle_in_any_thread();
}

void OperationsUnderWay::settle() noexcept {
  settle(over_);
  settle(over_anywhere_);
}

OperationsOwner* OperationsUnderWay::watch_urgent(Patience& patience) noexcept {
  const std::lock_guard guard(lock_);
  take_announced();
  for (Operation* each = first_.load(std::memory_order_relaxed); each != nullptr; each = each->next_) {
    if (!each->is_urgent()) continue;
    patience = each->owner_->patience_of(each->plan_.index);
    patience.turn = {};
    patience.stall = {};
    ++each->owner_->watchers_;
    return each->owner_;
  }
  return nullptr;
}

void OperationsUnderWay::end_watch(OperationsOwner& owner) noexcept {
  const std::lock_guard guard(lock_);
  --owner.watchers_;
}

void OperationsUnderWay::end_host() noexcept {
  const Lock lock(*this);
  has_host_ended_.store(true, std::memory_order_relaxed);
  for (Operation* each = first_.load(std::memory_order_relaxed); each != nullptr;) {
    Operation& operation = *std::exchange(each, each->next_);
    if (operation.owner_->needs_host_) remove(operation);
  }
}

void OperationsUnderWay::forget_all() noexcept {
  lock_.unlock();
  is_in_sequel = false;
  first_.store(nullptr, std::memory_order_relaxed);
  next_to_advance_ = nullptr;
  announced_.store(nullptr, std::memory_order_relaxed);
  announced_count_.store(0, std::memory_order_relaxed);
  over_.store(nullptr, std::memory_order_relaxed);
  over_anywhere_.store(nullptr, std::memory_order_relaxed);
  unsettled_.store(0, std::memory_order_relaxed);
  abandoned_.store(nullptr, std::memory_order_relaxed);
}

void OperationsUnderWay::announce(Operation& operation) noexcept {
  announced_count_.fetch_add(1, std::memory_order_relaxed);
  operation.next_ = announced_.load(std::memory_order_relaxed);
  while (!announced_.compare_exchange_weak(operation.next_, &operation, std::memory_order_release)) {
  }
}

void OperationsUnderWay::take_announced() noexcept {
  if (announced_.load(std::memory_order_relaxed) == nullptr) return;
  Operation* in_order = nullptr;
  for (Operation* each = announced_.exchange(nullptr, std::memory_order_acquire); each != nullptr;) {
    Operation* const earlier = std::exchange(each->next_, in_order);
    in_order = std::exchange(each, earlier);
  }
  while (in_order != nullptr) {
    Operation& each = *std::exchange(in_order, in_order->next_);
    each.next_ = nullptr;
    each.owner_->accept(each);
    announced_count_.fetch_sub(1, std::memory_order_release);
  }
}

// Comes before the operation leaves the list of those under way, so that any_or_sequels() stays true.
void OperationsUnderWay::expect_over(const Operation& operation) noexcept {
  if (operation.is_urgent()) unsettled_.fetch_add(1, std::memory_order_relaxed);
}

void OperationsUnderWay::add_complete(Operation& operation) noexcept {
  const Lock lock(*this);
  expect_over(operation);
  add_over(operation);
}

void OperationsUnderWay::add_over(Operation& operation) noexcept {
  std::atomic<Operation*>& over = operation.sequel_.in_any_thread ? over_anywhere_ : over_;
  operation.next_ = over.load(std::memory_order_relaxed);
  while (!over.compare_exchange_weak(operation.next_, &operation, std::memory_order_release)) {
  }
}

void OperationsUnderWay::clear() noexcept {
  if (abandoned_.load(std::memory_order_relaxed) == nullptr) return;
  OperationsOwner* each = abandoned_.exchange(nullptr, std::memory_order_acquire);
  settle();  // a thread that waits for an operation uses its owner
  while (each != nullptr) delete std::exchange(each, each->next_abandoned_);
}

void OperationsUnderWay::add_abandoned(OperationsOwner& owner) noexcept {
  owner.next_abandoned_ = abandoned_.load(std::memory_order_relaxed);
  while (!abandoned_.compare_exchange_weak(owner.next_abandoned_, &owner, std::memory_order_release)) {
  }
}

// Walking the list is cheap: it is short, because only the first operation on each stage can advance.
void OperationsUnderWay::add(Operation& operation) {
  if (has_host_ended() && operation.owner_->needs_host_) return;
  if (next_to_advance_ == nullptr) next_to_advance_ = &operation;
  Operation* last = first_.load(std::memory_order_relaxed);
  if (last == nullptr) {
    first_.store(&operation, std::memory_order_relaxed);
    return;
  }
  while (last->next_ != nullptr) last = last->next_;
  last->next_ = &operation;
}

void OperationsUnderWay::remove(Operation& operation) noexcept {
  Operation* const next = std::exchange(operation.next_, nullptr);
  Operation* each = first_.load(std::memory_order_relaxed);
  if (each == &operation) {
    first_.store(next, std::memory_order_release);
    return;
  }
  while (each != nullptr && each->next_ != &operation) each = each->next_;
  if (each != nullptr) each->next_ = next;
}

}  // namespace offbeat
