// SPDX-License-Identifier: BSD-3-Clause
#include "mpi/operations/operation.hpp"

#include <utility>

#include "mpi/communicators/communicator.hpp"

namespace offbeat {

constinit OperationsUnderWay operations_under_way;

Operation::Operation(Communicator& communicator, const Call& call, std::size_t bytes, Sequel sequel)
    : communicator_(&communicator),
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

void Operation::wait() {
  while (!is_complete()) {
    const Patience patience = communicator_->means_.patience_of(index_);
    Patience::Wait wait(patience);
    while (!operations_under_way.advance(HostCalls::all) && !is_complete()) wait.pause();
    operations_under_way.settle();
  }
  rethrow_if_failed();
}

// The pause gives the host its turns. If a turn throws because another rank has given up, the operation fails
// when it is advanced next.
void Operation::wait_for_sequel() noexcept {
  while (!is_complete()) {
    const Patience patience = communicator_->means_.patience_of(index_);
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
  communicator_->means_.prepare(*transport_, index_);
  if (stage_ != nullptr) {
    stage_->board.waiters = transport_;
    stage_->board.enter(number_, call_.collective, bytes_);
    stage_->begin_use(
        expression_->lease(call_, communicator_->rank(), communicator_->size(), stage_->board.size));
  }
  const Endpoint net = communicator_->endpoint(*transport_, call_, *expression_);
  const auto run = immediate_ != nullptr ? immediate_->run_in_steps : expression_->algorithm->run;
  task_ = run(net, call_, *expression_);
  transport_->begin(task_, stand_ins_);
}

bool Operation::advance(HostCalls calls) noexcept {
  if (is_complete() || before_ != nullptr) return false;
  if (calls == HostCalls::none && expression_->algorithm->needs.board != OnBoard::one_node) return false;
  bool is_over = false;
  bool got_further = true;
  try {
    communicator_->life_.require_intact();
    communicator_->or_break([&] {
      if (!has_started_) start();
      is_over = transport_->advance(task_, got_further, calls);
    });
  } catch (...) {
    failure_ = std::current_exception();
    is_over = true;
  }
  if (is_over) end();
  return got_further;
}

void Operation::end() noexcept {
  operations_under_way.remove(*this);
  if (stage_ != nullptr && has_started_) stage_->end_use();
  task_ = {};  // in the thread that advanced it: the frame goes to this thread's pool
  if (after_ != nullptr) {
    after_->before_ = nullptr;
    operations_under_way.add(*after_);
  }
  // Whoever destroys an abandoned communicator first settles the operations that are over. So add_over() must
  // come before forget().
  Communicator& communicator = *communicator_;
  const int index = index_;
  // After either of these two, the operation may have been destroyed.
  if (sequel_.call != nullptr) {
    operations_under_way.add_over(*this);
  } else {
    is_complete_.store(true, std::memory_order_release);
  }
  communicator.forget(this, index);
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

void OperationsUnderWay::settle() noexcept {
  if (over_.load(std::memory_order_relaxed) == nullptr) return;
  for (Operation* each = over_.exchange(nullptr, std::memory_order_acquire); each != nullptr;) {
    Operation* const next = each->next_;
    each->is_complete_.store(true, std::memory_order_release);
    each->sequel_.call(each->sequel_.state);  // may destroy the operation
    each = next;
  }
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
    each.communicator_->accept(each);
    announced_count_.fetch_sub(1, std::memory_order_relaxed);
  }
}

void OperationsUnderWay::add_over(Operation& operation) noexcept {
  operation.next_ = over_.load(std::memory_order_relaxed);
  while (!over_.compare_exchange_weak(operation.next_, &operation, std::memory_order_release)) {
  }
}

void OperationsUnderWay::clear() noexcept {
  if (abandoned_.load(std::memory_order_relaxed) == nullptr) return;
  Communicator* each = abandoned_.exchange(nullptr, std::memory_order_acquire);
  settle();  // a thread that waits for an operation uses its communicator
  while (each != nullptr) delete std::exchange(each, each->next_abandoned_);
}

void OperationsUnderWay::add_abandoned(Communicator& communicator) noexcept {
  communicator.next_abandoned_ = abandoned_.load(std::memory_order_relaxed);
  while (!abandoned_.compare_exchange_weak(communicator.next_abandoned_, &communicator,
                                           std::memory_order_release)) {
  }
}

// Walking the list is cheap: it is short, because only the first operation on each stage can advance.
void OperationsUnderWay::add(Operation& operation) {
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
    first_.store(next, std::memory_order_relaxed);
    return;
  }
  while (each != nullptr && each->next_ != &operation) each = each->next_;
  if (each != nullptr) each->next_ = next;
}

}  // namespace offbeat
