// SPDX-License-Identifier: BSD-3-Clause
// What a fork() means for the TcpNetworks of a process.
#include <mutex>
#include <utility>

#include "groups/tcp_lingering.hpp"
#include "groups/tcp_network.hpp"

namespace offbeat {
namespace {

// All networks of the process.
constinit SpinLock list_lock;
constinit TcpNetwork* first_in_list = nullptr;

}  // namespace

void TcpNetwork::enlist() {
  const std::lock_guard guard(list_lock);
  next_ = std::exchange(first_in_list, this);
}

void TcpNetwork::delist() {
  const std::lock_guard guard(list_lock);
  TcpNetwork** at = &first_in_list;
  while (*at != this) at = &(*at)->next_;
  *at = next_;
}

void TcpNetwork::prepare_fork() {
  list_lock.lock();
  for (TcpNetwork* each = first_in_list; each != nullptr; each = each->next_) each->lock_.lock();
  LingeringSockets::of_process().prepare_fork();
}

void TcpNetwork::after_fork_in_parent() {
  LingeringSockets::of_process().after_fork_in_parent();
  unlock_all();
}

void TcpNetwork::unlock_all() {
  for (TcpNetwork* each = first_in_list; each != nullptr; each = each->next_) each->lock_.unlock();
  list_lock.unlock();
}

// The parent's epoll still watches the sockets, because they are open there.
void TcpNetwork::after_fork_in_child() {
  for (TcpNetwork* each = first_in_list; each != nullptr; each = each->next_) {
    for (const std::unique_ptr<Connection>& on : each->connections_)
      static_cast<void>(Descriptor(on->stream.take_socket()));
    each->listener_ = Descriptor();
    each->epoll_ = Descriptor();
  }
  LingeringSockets::of_process().after_fork_in_child();
  unlock_all();
}

}  // namespace offbeat
