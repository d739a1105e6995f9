// SPDX-License-Identifier: BSD-3-Clause
#include "groups/tcp_lingering.hpp"

#include <linux/sockios.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstdlib>
#include <mutex>
#include <utility>

#include "base/time.hpp"

namespace offbeat {
namespace {

// Reads what has come and drops it. Returns false if the connection is broken.
bool drain(const Descriptor& socket) {
  std::array<char, 1024> rest;
  ssize_t got = 0;
  do {
    got = recv(socket.get(), rest.data(), rest.size(), MSG_DONTWAIT);
  } while (got > 0 || (got < 0 && errno == EINTR));
  return got == 0 || errno == EAGAIN;
}

bool is_delivered(const Descriptor& socket) {
  int unacknowledged_bytes = 0;
  return ioctl(socket.get(), SIOCOUTQ, &unacknowledged_bytes) != 0 || unacknowledged_bytes == 0;
}

bool is_over(const Descriptor& socket) { return !drain(socket) || is_delivered(socket); }

}  // namespace

LingeringSockets& LingeringSockets::of_process() {
  static auto* const made = [] {
    auto* const sockets = new LingeringSockets;  // groups may end after static objects
    static_cast<void>(std::atexit([] { static_cast<void>(of_process().wait(ns_per_s)); }));
    return sockets;
  }();
  return *made;
}

void LingeringSockets::add(Descriptor socket) {
  const std::lock_guard guard(lock_);
  sockets_.push_back(std::move(socket));
}

void LingeringSockets::close_delivered() {
  const std::lock_guard guard(lock_);
  std::erase_if(sockets_, is_over);
}

// If a signal handler called exit() in close_delivered(), this thread holds the lock and never unlocks it.
bool LingeringSockets::wait(std::int64_t at_most_ns) {
  for (const std::int64_t until_ns = monotonic_ns() + at_most_ns;; usleep(1000)) {
    if (lock_.try_lock()) {
      const std::lock_guard guard(lock_, std::adopt_lock);
      std::erase_if(sockets_, is_over);
      if (sockets_.empty()) return true;
    }
    if (monotonic_ns() > until_ns) return false;
  }
}

}  // namespace offbeat
