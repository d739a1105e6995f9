// SPDX-License-Identifier: BSD-3-Clause
// ForkList holds all networks of one kind in this process, for the handlers of fork(). The child has no
// thread that could unlock what another thread of its parent had locked. So the thread that forks locks it
// all.
#pragma once

#include <mutex>
#include <utility>

#include "base/spin_lock.hpp"

namespace offbeat {

// A Network has `lock_`, `next_in_list_`, and leave_to_parent(), which gives up what belongs to the parent. A
// thread that has its lock may take that of Lingering::of_process(), but no other of this kind.
template <class Network, class Lingering>
class ForkList {
 public:
  void add(Network& network) {
    const std::lock_guard guard(lock_);
    network.next_in_list_ = std::exchange(first_, &network);
  }
  void remove(const Network& network) {
    const std::lock_guard guard(lock_);
    Network** at = &first_;
    while (*at != &network) at = &(*at)->next_in_list_;
    *at = network.next_in_list_;
  }
  // Calls visit(network) for all, unless another thread has the list.
  template <class Visit>
  void try_visit(Visit&& visit) {
    if (!lock_.try_lock()) return;
    const std::lock_guard guard(lock_, std::adopt_lock);
    visit_all(visit);
  }

  void prepare_fork() {
    lock_.lock();
    visit_all([](Network& each) { each.lock_.lock(); });
    Lingering::of_process().prepare_fork();
  }
  void after_fork_in_parent() {
    Lingering::of_process().after_fork_in_parent();
    unlock();
  }
  void after_fork_in_child() {
    visit_all([](Network& each) { each.leave_to_parent(); });
    Lingering::of_process().after_fork_in_child();
    unlock();
  }

 private:
  template <class Visit>
  void visit_all(Visit&& visit) {
    for (Network* each = first_; each != nullptr; each = each->next_in_list_) visit(*each);
  }
  void unlock() {
    visit_all([](Network& each) { each.lock_.unlock(); });
    lock_.unlock();
  }

  SpinLock lock_;
  Network* first_ = nullptr;
};

}  // namespace offbeat
