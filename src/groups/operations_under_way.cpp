// SPDX-License-Identifier: BSD-3-Clause
#include "groups/operations_under_way.hpp"

#include <utility>

namespace offbeat {

constinit OperationsUnderWay operations_under_way;

namespace {

constinit thread_local bool is_in_sequel = false;

}  // namespace

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

OperationsOwner* OperationsUnderWay::watch(Patience& patience) noexcept {
  const std::lock_guard guard(lock_);
  take_announced();
  for (Operation* each = first_.load(std::memory_order_relaxed); each != nullptr; each = each->next_) {
    if (!each->is_urgent() && !each->plan_.advances_in_thread) continue;
    patience = each->owner_->patience_of(each->plan_.index);
    if (!each->is_urgent()) patience.shares_cores = true;  // the program computes
    patience.turn = {};
    patience.stall = {};
    ++each->owner_->watchers_;
    return each->owner_;
  }
  return nullptr;
}

bool OperationsUnderWay::is_watched(const OperationsOwner& owner) noexcept {
  const std::lock_guard guard(lock_);
  return owner.is_watched();
}

void OperationsUnderWay::end_watch(OperationsOwner& owner) noexcept {
  const std::lock_guard guard(lock_);
  --owner.watchers_;
}

// After an operation has failed, the next one on its stage joins the list and fails in the same loop.
void OperationsUnderWay::end_host() noexcept {
  const Lock lock(*this);
  for (Operation* each = first_.load(std::memory_order_relaxed); each != nullptr; each = next_to_advance_) {
    next_to_advance_ = each->next_;
    switch (each->owner_->when_host_ends_) {
      case WhenHostEnds::go_on:
        break;
      case WhenHostEnds::go_on_if_can:
        if (each->needs_host()) remove(*each);
        break;
      case WhenHostEnds::fail:
        each->owner_->break_down_with_host();
        each->advance(HostCalls::messages);
    }
  }
  has_host_ended_.store(true, std::memory_order_relaxed);
}

void OperationsUnderWay::forget_all() noexcept {
  lock_.unlock();
  is_in_sequel = false;
  first_.store(nullptr, std::memory_order_relaxed);
  last_ = nullptr;
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
  while (each != nullptr) {
    OperationsOwner* const next = each->next_abandoned_;
    if (is_watched(*each))
      add_abandoned(*each);
    else
      delete each;
    each = next;
  }
}

void OperationsUnderWay::add_abandoned(OperationsOwner& owner) noexcept {
  owner.next_abandoned_ = abandoned_.load(std::memory_order_relaxed);
  while (!abandoned_.compare_exchange_weak(owner.next_abandoned_, &owner, std::memory_order_release)) {
  }
}

// The list may be long: it has any number of messages, and the first operation on each stage.
void OperationsUnderWay::add(Operation& operation) {
  const bool may_need_host = operation.owner_->when_host_ends_ == WhenHostEnds::go_on_if_can;
  if (has_host_ended() && may_need_host && operation.needs_host()) return;
  if (next_to_advance_ == nullptr) next_to_advance_ = &operation;
  operation.next_ = nullptr;
  operation.previous_ = last_;
  if (last_ != nullptr) {
    last_->next_ = &operation;
  } else {
    first_.store(&operation, std::memory_order_relaxed);
  }
  last_ = &operation;
}

// Does nothing if the operation is not in the list.
void OperationsUnderWay::remove(Operation& operation) noexcept {
  if (operation.previous_ == nullptr && first_.load(std::memory_order_relaxed) != &operation) return;
  Operation* const next = std::exchange(operation.next_, nullptr);
  Operation* const previous = std::exchange(operation.previous_, nullptr);
  (next != nullptr ? next->previous_ : last_) = previous;
  if (previous != nullptr) {
    previous->next_ = next;
  } else {
    first_.store(next, std::memory_order_release);
  }
}

}  // namespace offbeat
