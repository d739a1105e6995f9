// SPDX-License-Identifier: BSD-3-Clause
// LingeringSockets keeps the sockets of networks that are gone. If a process closes a socket while data from
// the other rank are unread in it, the system throws away what it has not sent yet. So a socket stays open,
// and is read, until the other rank's system has everything.
#pragma once

#include <cstdint>
#include <vector>

#include "base/spin_lock.hpp"
#include "node/shared_memory.hpp"

namespace offbeat {

class LingeringSockets {
 public:
  // Returns the sockets of this process. When the process ends, it waits up to a second for them.
  static LingeringSockets& of_process();

  // Takes a socket on which this rank will send nothing more. Throws std::bad_alloc.
  void add(Descriptor socket);
  // Closes the sockets that are delivered or broken.
  void close_delivered();
  // Closes delivered sockets until none is left, or until `at_most_ns` have passed. An exit handler may call
  // this while its thread holds the lock. Returns true if none is left.
  [[nodiscard]] bool wait(std::int64_t at_most_ns);

  // For the handlers of fork(). The child keeps none.
  void prepare_fork() { lock_.lock(); }
  void after_fork_in_parent() { lock_.unlock(); }
  void after_fork_in_child() {
    sockets_.clear();
    lock_.unlock();
  }

 private:
  SpinLock lock_;
  std::vector<Descriptor> sockets_;
};

}  // namespace offbeat
