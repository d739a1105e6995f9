// SPDX-License-Identifier: BSD-3-Clause
#include "mpi/operation.hpp"

#include <utility>

#include "mpi/communicator.hpp"

namespace offbeat {

constinit OperationsUnderWay operations_under_way;

Operation::Operation(Communicator& communicator, const Call& call)
    : communicator_(&communicator), reduction_(call.op != nullptr ? *call.op : Reduction{}), call_(call) {
  if (call.op != nullptr) call_.op = &reduction_;
}

// One that the program gives up before it is complete, because MPI has ended, may still be written to by
// messages. Its communicator stays for ever, too.
Operation::~Operation() {
  if (is_complete()) return;
  const OperationsUnderWay::Turn turn(operations_under_way);
  operations_under_way.remove(*this);
  if (after_ != nullptr) after_->before_ = nullptr;
  task_.leak();
}

bool Operation::test() {
  if (!is_complete()) operations_under_way.advance();
  if (!is_complete()) return false;
  rethrow_if_failed();
  return true;
}

void Operation::wait() {
  while (!is_complete()) {
    Patience::Wait wait(transport_->patience());
    while (!operations_under_way.advance() && !is_complete()) wait.pause();
  }
  rethrow_if_failed();
}

void Operation::start() {
  has_started_ = true;
  if (stage_ != nullptr) {
    stage_->board.waiters = &*transport_;
    stage_->board.enter(number_, call_.collective, call_.output.bytes());
    stage_->begin_use(call_.output.bytes());
  }
  task_ = carry_out(communicator_->endpoint(*transport_, *expression_), call_, *expression_);
  transport_->begin(task_);
}

bool Operation::advance() noexcept {
  if (is_complete() || before_ != nullptr) return false;
  bool is_over = false;
  bool got_further = true;
  try {
    communicator_->require_intact();
    communicator_->or_break([&] {
      if (!has_started_) start();
      is_over = transport_->advance(task_, got_further);
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
  if (after_ != nullptr) after_->before_ = nullptr;
  communicator_->forget(*this);
  is_complete_.store(true, std::memory_order_release);
}

bool OperationsUnderWay::advance() noexcept {
  if (!any() || is_taken_.test_and_set(std::memory_order_acquire)) return false;
  bool got_further = false;
  for (Operation* each = first_.load(std::memory_order_relaxed); each != nullptr;) {
    Operation* const next = each->next_;  // it may end
    got_further = each->advance() || got_further;
    each = next;
  }
  is_taken_.clear(std::memory_order_release);
  return got_further;
}

// In the order in which they were begun.
void OperationsUnderWay::add(Operation& operation) {
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
